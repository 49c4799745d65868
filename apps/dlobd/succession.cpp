#include "succession.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace dlobd::app {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kLongestName = 200;

bool is_plain(std::string_view name) {
  return name.size() <= kLongestName && std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '_';
         });
}

}  // namespace

Succession::Succession(fs::path out, const std::string& run, int rank)
    : out_(std::move(out)), run_(is_plain(run) ? run : std::string()), rank_(rank) {}

Succession::~Succession() {
  std::error_code ignored;
  if (!run_.empty()) fs::remove(sign(), ignored);
}

bool Succession::is_over() const {
  std::error_code ignored;
  return !run_.empty() && fs::exists(out_ / run_, ignored);
}

bool Succession::falls_to_this_rank(base::Duration patience) const {
  if (run_.empty()) return false;  // it was never taken in: it has nothing to tell of that run
  std::error_code ignored;
  fs::create_directories(out_, ignored);
  { const std::ofstream put_up(sign()); }
  std::this_thread::sleep_for(patience);
  if (is_over()) return false;
  for (auto entry = fs::directory_iterator(out_, ignored); entry != fs::directory_iterator();
       entry.increment(ignored)) {
    const std::string name = entry->path().filename().string();
    if (name.rfind(prefix(), 0) != 0) continue;
    int other = 0;
    const char* const end = name.data() + name.size();
    const auto [stopped, error] = std::from_chars(name.data() + prefix().size(), end, other);
    if (error == std::errc() && stopped == end && other < rank_) return false;
  }
  return true;
}

std::string Succession::prefix() const {
  return fmt::format(".lost-{}-", run_);
}

fs::path Succession::sign() const {
  return out_ / (prefix() + std::to_string(rank_));
}

}  // namespace dlobd::app
