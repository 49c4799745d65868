#include "metrics/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/descriptor.h"
#include "base/folders.h"
#include "metrics/csv.h"
#include "metrics/files.h"

namespace dlobd::metrics {
namespace {

namespace fs = std::filesystem;
using base::ErrorKind;
using base::Result;

constexpr int kTries = 16;

std::string reason(int error) {
  return std::generic_category().message(error);
}

base::Failure cannot(const fs::path& path, int error) {
  return base::fail(ErrorKind::io_error, fmt::format("cannot write the run record: {}: {}",
                                                     path.string(), reason(error)));
}

std::string random_word() {
  std::uint32_t bits = 0;
  if (::getrandom(&bits, sizeof(bits), 0) != sizeof(bits)) {
    bits = static_cast<std::uint32_t>(::getpid()) * 2654435761U;
  }
  return fmt::format("{:06x}", bits & 0xffffff);
}

// Removes a file or folder unless it was released.
class Leftover {
 public:
  explicit Leftover(fs::path path) : path_(std::move(path)) {}
  Leftover(const Leftover&) = delete;
  Leftover& operator=(const Leftover&) = delete;
  ~Leftover() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  void release() { path_.clear(); }

 private:
  fs::path path_;
};

Result<void> write_file(const fs::path& path, std::string_view text) {
  const base::Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file) return cannot(path, errno);
  while (!text.empty()) {
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return cannot(path, errno);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::fsync(file.get()) != 0) return cannot(path, errno);
  return {};
}

Result<void> sync_folder(const fs::path& folder) {
  const auto error = base::sync_folder(folder);
  if (error) return cannot(folder, error.value());
  return {};
}

// Like rename, but fails with EEXIST where `to` is there. Where the kernel cannot promise that, the
// plain call does, for runs are folders that are not empty (ENOTEMPTY).
int rename_to_new(const fs::path& from, const fs::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  if (::rename(from.c_str(), to.c_str()) == 0) return 0;
  return errno == ENOTEMPTY || errno == ENOTDIR ? EEXIST : errno;
}

Result<std::string> read_file(const fs::path& path) {
  auto text = read_text(path.string());
  if (!text) {
    return base::fail(ErrorKind::corrupt_data,
                      fmt::format("a run without {}: {}", path.filename().string(), path.string()));
  }
  return std::move(*text);
}

base::Failure unreadable(const fs::path& path, const base::Error& why) {
  return base::fail(why.kind,
                    fmt::format("cannot read the run record {}: {}", path.string(), why.message));
}

}  // namespace

Result<void> check_writable(const fs::path& out) {
  if (out.empty()) {
    return base::fail(ErrorKind::invalid_argument, "the folder for run records has no name");
  }
  // The nearest folder that is there.
  fs::path place = out;
  struct stat status {};
  while (::stat(place.c_str(), &status) != 0) {
    if (errno != ENOENT) return cannot(out, errno);
    const fs::path above = place.has_parent_path() ? place.parent_path() : fs::path(".");
    if (above == place) return cannot(out, ENOENT);
    place = above;
  }
  if (!S_ISDIR(status.st_mode)) return cannot(place, ENOTDIR);
  const fs::path probe = place / fmt::format(".dlobd-{}-{}", ::getpid(), random_word());
  const Leftover removed(probe);
  // More than a file system may keep inside its own records.
  const auto written = write_file(probe, std::string(64 << 10, '\n'));
  if (!written) {
    return base::fail(
        written.error().kind,
        fmt::format("{}; free space, or name another folder by --out", written.error().message));
  }
  return {};
}

std::string new_run_id(std::string_view started_at, std::string_view stack) {
  // "2026-03-01T12:00:00.123Z" -> "20260301T120000Z"
  std::string id;
  for (const char c : started_at.substr(0, 19)) {
    if (c != '-' && c != ':') id += c;
  }
  id += "Z-";
  for (const char c : stack) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    id += plain ? c : '_';
  }
  return fmt::format("{}-{}", id, random_word());
}

Result<fs::path> write_run(const fs::path& out, const RunRecord& record) {
  return write_run(out, record,
                   [&record] { return new_run_id(record.started_at, record.config.stack); });
}

Result<fs::path> write_run(const fs::path& out, const RunRecord& record,
                           const std::function<std::string()>& next_id) {
  if (const auto error = base::make_folders(out)) return cannot(out, error.value());
  const fs::path hidden = out / fmt::format(".partial-{}-{}", ::getpid(), random_word());
  if (::mkdir(hidden.c_str(), 0755) != 0) return cannot(hidden, errno);
  Leftover leftover(hidden);
  const std::string json =
      to_json(record).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  DLOBD_TRY_VOID(run, write_file(hidden / "run.json", json));
  DLOBD_TRY_VOID(steps, write_file(hidden / "steps.csv", steps_csv(record.steps)));
  DLOBD_TRY_VOID(evaluations,
                 write_file(hidden / "evaluations.csv", evaluations_csv(record.evaluations)));
  DLOBD_TRY_VOID(synced, sync_folder(hidden));
  for (int i = 0; i < kTries; ++i) {
    const fs::path folder = out / next_id();
    const int failed = rename_to_new(hidden, folder);
    if (failed == EEXIST) continue;
    if (failed != 0) return cannot(folder, failed);
    leftover.release();
    DLOBD_TRY_VOID(named, sync_folder(out));
    return folder;
  }
  return base::fail(ErrorKind::io_error,
                    fmt::format("cannot write the run record: {} names in a row are taken in {}",
                                kTries, out.string()));
}

Result<RunRecord> read_run(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    return base::fail(ErrorKind::not_found, fmt::format("no run folder: {}", folder.string()));
  }
  DLOBD_TRY(text, read_file(folder / "run.json"));
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded()) {
    return unreadable(folder / "run.json", {ErrorKind::corrupt_data, "it is not JSON"});
  }
  auto record = run_record_from_json(json);
  if (!record) return unreadable(folder / "run.json", record.error());
  DLOBD_TRY(steps_text, read_file(folder / "steps.csv"));
  auto steps = parse_steps_csv(steps_text);
  if (!steps) return unreadable(folder / "steps.csv", steps.error());
  DLOBD_TRY(evaluations_text, read_file(folder / "evaluations.csv"));
  auto evaluations = parse_evaluations_csv(evaluations_text);
  if (!evaluations) return unreadable(folder / "evaluations.csv", evaluations.error());
  record->steps = std::move(*steps);
  record->evaluations = std::move(*evaluations);
  return record;
}

}  // namespace dlobd::metrics
