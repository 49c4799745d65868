// Reading members of JSON objects by name, with one clear message for the first that is missing or
// of another type: "summary.steps is missing", "ranks[2].bytes_sent is not what it should be:
// \"many\"". No exception leaves it. After a problem every further read does nothing.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace dlobd::metrics {

template <class T>
nlohmann::json nullable(const std::optional<T>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

class FieldReader {
 public:
  // The first thing that was wrong.
  class Problem {
   public:
    [[nodiscard]] bool empty() const { return text_.empty(); }
    [[nodiscard]] const std::string& text() const { return text_; }

   private:
    friend class FieldReader;
    std::string text_;
  };

  // `path` names the object: "" or "summary.".
  FieldReader(const nlohmann::json& object, std::string path, Problem& problem)
      : object_(&object), path_(std::move(path)), problem_(&problem) {
    if (!object.is_object()) {
      if (problem_->text_.empty()) {
        const std::string_view name(path_.data(), path_.empty() ? 0 : path_.size() - 1);
        problem_->text_ = fmt::format("{} is no object", name.empty() ? "it" : name);
      }
      object_ = &nothing();
    }
  }

  template <class T>
  void required(const char* key, T& value) const {
    const auto found = object_->find(key);
    if (found == object_->end()) return wrong(fmt::format("{} is missing", key));
    read(key, *found, value);
  }
  template <class T>
  void optional(const char* key, T& value) const {
    const auto found = object_->find(key);
    if (found != object_->end()) read(key, *found, value);
  }
  // The object under `key`; an empty one and a problem where there is none.
  [[nodiscard]] FieldReader child(const std::string& key) const {
    const auto found = object_->find(key);
    if (found == object_->end()) {
      wrong(key + " is missing");
      return {nothing(), path_ + key + ".", *problem_};
    }
    return {*found, path_ + key + ".", *problem_};
  }
  [[nodiscard]] std::vector<FieldReader> children(const std::string& key) const {
    std::vector<FieldReader> all;
    const auto found = object_->find(key);
    if (found == object_->end() || !found->is_array()) {
      wrong(key + " is missing or no list");
      return all;
    }
    for (std::size_t i = 0; i < found->size(); ++i) {
      all.emplace_back((*found)[i], fmt::format("{}{}[{}].", path_, key, i), *problem_);
    }
    return all;
  }
  [[nodiscard]] const nlohmann::json& object() const { return *object_; }
  void wrong(const std::string& what) const {
    if (problem_->text_.empty()) problem_->text_ = path_ + what;
  }

 private:
  static const nlohmann::json& nothing() {
    static const nlohmann::json empty = nlohmann::json::object();
    return empty;
  }

  template <class T>
  void read(const char* key, const nlohmann::json& from, T& value) const {
    if (!problem_->empty()) return;
    if (!take(from, value)) {
      std::string text = from.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      if (text.size() > 40) text = text.substr(0, 40) + "...";
      wrong(fmt::format("{} is not what it should be: {}", key, text));
    }
  }

  static bool take(const nlohmann::json& from, std::string& value) {
    if (!from.is_string()) return false;
    value = from.get_ref<const std::string&>();
    return true;
  }
  static bool take(const nlohmann::json& from, bool& value) {
    if (!from.is_boolean()) return false;
    value = from.get<bool>();
    return true;
  }
  // A figure that was NaN or infinite is null.
  static bool take(const nlohmann::json& from, double& value) {
    if (!from.is_number() && !from.is_null()) return false;
    value = from.is_null() ? std::nan("") : from.get<double>();
    return true;
  }
  template <class T>
  requires std::is_integral_v<T>
  static bool take(const nlohmann::json& from, T& value) {
    if (from.is_number_unsigned()) {
      const auto wide = from.get<std::uint64_t>();
      value = static_cast<T>(wide);
      return std::in_range<T>(wide);
    }
    if (!from.is_number_integer()) return false;
    const auto wide = from.get<std::int64_t>();
    value = static_cast<T>(wide);
    return std::in_range<T>(wide);
  }
  template <class T>
  static bool take(const nlohmann::json& from, std::optional<T>& value) {
    value.reset();
    if (from.is_null()) return true;
    return take(from, value.emplace());
  }
  template <class T>
  static bool take(const nlohmann::json& from, std::vector<T>& value) {
    if (!from.is_array()) return false;
    value.clear();
    for (const auto& item : from) {
      if (!take(item, value.emplace_back())) return false;
    }
    return true;
  }
  static bool take(const nlohmann::json& from, std::map<std::string, std::string>& value) {
    if (!from.is_object()) return false;
    value.clear();
    for (const auto& item : from.items()) {
      if (!take(item.value(), value[item.key()])) return false;
    }
    return true;
  }

  const nlohmann::json* object_;
  std::string path_;
  Problem* problem_;
};

}  // namespace dlobd::metrics
