#include "compute/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/nearest.h"
#include "compute/model_replica.h"

namespace dlobd::compute {
namespace {

using nlohmann::json;

base::Failure off(const std::string& origin, const std::string& what) {
  return base::fail(base::ErrorKind::corrupt_data,
                    fmt::format("the profile cannot be used: {}: {}", origin, what));
}

// Reads the keys of a profile; remembers the first that is off.
class Keys {
 public:
  explicit Keys(const json& object) : object_(object) {}

  std::string text(const char* key, bool required) {
    const auto found = object_.find(key);
    if (found == object_.end()) {
      if (required) note(fmt::format("\"{}\" is missing", key));
      return {};
    }
    if (!found->is_string()) {
      note(fmt::format("\"{}\" is no text", key));
      return {};
    }
    return found->get<std::string>();
  }

  std::int64_t integer(const json& object, const std::string& key, std::int64_t least) {
    const auto found = object.find(key);
    if (found == object.end()) {
      note(fmt::format("\"{}\" is missing", key));
      return least;
    }
    // A year of nanoseconds a step is beyond anything that computes.
    constexpr std::int64_t kMost = 31'536'000'000'000'000;
    const bool integral = found->is_number_integer();
    const bool huge = found->is_number_unsigned() && found->get<std::uint64_t>() > kMost;
    if (!integral || huge || found->get<std::int64_t>() < least) {
      note(fmt::format("\"{}\" must be an integer from {} to {}: {}", key, least, kMost,
                       found->dump()));
      return least;
    }
    return found->get<std::int64_t>();
  }

  std::map<std::string, std::int64_t> integers(const char* key) {
    std::map<std::string, std::int64_t> values;
    const auto found = object_.find(key);
    if (found == object_.end() || !found->is_object()) {
      note(fmt::format("\"{}\" is missing or no object", key));
      return values;
    }
    for (const auto& item : found->items()) values[item.key()] = integer(*found, item.key(), 0);
    return values;
  }

  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  void note(std::string what) {
    if (error_.empty()) error_ = std::move(what);
  }

  const json& object_;
  std::string error_;
};

class ProfileReplica final : public ModelReplica {
 public:
  ProfileReplica(base::Loop& loop, const Profile& profile, const Model& model, Backing backing)
      : ModelReplica(model, backing),
        loop_(loop),
        order_(model.backward_order()),
        batch_size_(profile.batch_size) {
    // Points in time from the start of a step of the profile's batch, so that roundings do not add
    // up.
    std::int64_t at = profile.forward_ns;
    forward_ns_ = at;
    for (const std::size_t view : order_) {
      at += profile.backward_ns.at(model.parameters[view].name);
      ready_ns_.push_back(at);
    }
  }

  base::Task<base::Result<StepResult>> forward_backward(const batches::Batch& batch,
                                                        GradientSink& sink) override {
    auto checked = check_size(batch);
    DLOBD_CO_CHECK(checked);
    const base::Time start = loop_.now();
    StepResult result;
    result.samples = batch.size();
    result.compute = scaled(forward_ns_, batch.size());
    co_await loop_.sleep_until(start + result.compute);
    for (std::size_t i = 0; i < order_.size(); ++i) {
      result.compute = scaled(ready_ns_[i], batch.size());
      co_await loop_.sleep_until(start + result.compute);
      clear_gradient(order_[i]);
      sink.gradient_ready(order_[i]);
    }
    co_return result;
  }

  base::Task<base::Result<Evaluation>> evaluate(const batches::Batch& batch) override {
    auto checked = check_size(batch);
    DLOBD_CO_CHECK(checked);
    co_await loop_.sleep_for(scaled(forward_ns_, batch.size()));
    Evaluation result;
    result.samples = batch.size();
    co_return result;
  }

 private:
  // Pixels are never looked at, so a batch may consist of labels alone.
  static base::Result<void> check_size(const batches::Batch& batch) {
    if (batch.size() > 0) return {};
    return base::fail(base::ErrorKind::invalid_argument, "a batch has no samples");
  }

  [[nodiscard]] base::Duration scaled(std::int64_t ns, std::size_t samples) const {
    const auto product = static_cast<__int128>(ns) * static_cast<__int128>(samples);
    return base::Duration(static_cast<std::int64_t>(product / batch_size_));
  }

  void clear_gradient(std::size_t view) {
    if (arena_.backing() == Backing::phantom) return;
    const ParameterView& cleared = arena_.views()[view];
    const auto gradient = arena_.gradients().subspan(cleared.offset, cleared.size);
    std::fill(gradient.begin(), gradient.end(), 0.0F);
  }

  base::Loop& loop_;
  std::vector<std::size_t> order_;
  std::vector<std::int64_t> ready_ns_;
  std::int64_t forward_ns_ = 0;
  std::int64_t batch_size_;
};

}  // namespace

base::Result<Profile> parse_profile(std::string_view text, const std::string& origin) {
  const json object = json::parse(text, nullptr, false);
  if (object.is_discarded()) return off(origin, "it is not JSON");
  if (!object.is_object()) return off(origin, "it is not a JSON object");
  Keys keys(object);
  Profile profile;
  profile.name = keys.text("name", true);
  profile.model = keys.text("model", true);
  profile.batch_size = keys.integer(object, "batch_size", 1);
  profile.forward_ns = keys.integer(object, "forward_ns", 0);
  profile.backward_ns = keys.integers("backward_ns");
  profile.source = keys.text("source", false);
  profile.grade = keys.text("grade", false);
  if (!keys.error().empty()) return off(origin, keys.error());
  return profile;
}

base::Result<Profile> read_profile(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return base::fail(base::ErrorKind::not_found,
                      fmt::format("no such profile of a processor: {}", path));
  }
  if (!std::filesystem::is_regular_file(path, error)) {
    return base::fail(base::ErrorKind::io_error,
                      fmt::format("a profile of a processor must be a file: {}", path));
  }
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file) {
    return base::fail(
        base::ErrorKind::io_error,
        fmt::format("cannot read the profile of a processor: {}: {}", path, std::strerror(errno)));
  }
  return parse_profile(text, path);
}

base::Result<std::unique_ptr<Replica>> make_profile(base::Loop& loop, const Profile& profile,
                                                    const Model& model, Backing backing) {
  const auto kind = base::ErrorKind::invalid_argument;
  if (profile.model != model.name) {
    return base::fail(kind,
                      fmt::format("the profile is of another model: profile {} of {}, model {}",
                                  profile.name, profile.model, model.name));
  }
  std::vector<std::string> views;
  for (const ParameterSpec& spec : model.parameters) {
    views.push_back(spec.name);
    if (!profile.backward_ns.contains(spec.name)) {
      return base::fail(kind, fmt::format("the profile's backward_ns lacks a view of the model: "
                                          "profile {}, view {}",
                                          profile.name, spec.name));
    }
  }
  for (const auto& [view, ns] : profile.backward_ns) {
    if (std::find(views.begin(), views.end(), view) == views.end()) {
      return base::fail(kind,
                        fmt::format("the profile's backward_ns has a view that the model lacks: "
                                    "profile {}, view {} ({})",
                                    profile.name, view, base::suggestion(view, views)));
    }
  }
  return std::make_unique<ProfileReplica>(loop, profile, model, backing);
}

}  // namespace dlobd::compute
