#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "doctor_checks.h"
#include "doctor_child.h"
#include "metrics/files.h"

namespace dlobd::app {
namespace {

namespace fs = std::filesystem;

constexpr base::Duration kProgramPatience = std::chrono::seconds(20);

Capability found_at(std::string name, const std::string& what, const std::string& path) {
  Capability one;
  one.name = std::move(name);
  one.found = fmt::format("{}, {}", what, path);
  one.details = {{"version", what}, {"path", path}};
  return one;
}

Capability not_found(std::string name, std::string found, std::string remedy) {
  Capability one;
  one.name = std::move(name);
  one.finding = Finding::missing;
  one.found = std::move(found);
  one.remedy = std::move(remedy);
  return one;
}

std::string first_line(std::string_view text) {
  return std::string(metrics::trim(text.substr(0, text.find('\n'))));
}

Capability check_java(const Variables& variables) {
  const std::string remedy = "apt install openjdk-17-jre-headless, or set JAVA_HOME";
  const auto path = find_program("java", variables, "JAVA_HOME");
  if (!path) return not_found("java", "no java on PATH or in JAVA_HOME", remedy);
  const auto version = output_of({*path, "-version"}, kProgramPatience);
  if (!version) {
    return not_found("java", fmt::format("{}: {}", *path, version.error().message), remedy);
  }
  return found_at("java", first_line(*version), *path);
}

// Of a jar "<stem>-3.5.1.jar" in `folder`: its version, without starting a Java machine.
std::string jar_version(const fs::path& folder, const std::string& stem) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(stem) || !name.ends_with(".jar")) continue;
    const std::size_t dash = name.rfind('-');
    return name.substr(dash + 1, name.size() - dash - 5);
  }
  return {};
}

// The folder above bin/, links followed.
fs::path home_of(const std::string& program) {
  std::error_code error;
  const fs::path real = fs::canonical(program, error);
  return (error ? fs::path(program) : real).parent_path().parent_path();
}

Capability check_spark(const Variables& variables) {
  const auto path = find_program("spark-submit", variables, "SPARK_HOME");
  if (!path) {
    return not_found(
        "spark", "no spark-submit on PATH or in SPARK_HOME",
        "pip install pyspark (it carries Spark), or unpack Apache Spark and set SPARK_HOME");
  }
  const std::string version = jar_version(home_of(*path) / "jars", "spark-core_");
  return found_at("spark", version.empty() ? "version not known" : version, *path);
}

Capability check_hdfs(const Variables& variables) {
  const auto path = find_program("hdfs", variables, "HADOOP_HOME");
  if (!path) {
    return not_found("hdfs", "no hdfs on PATH or in HADOOP_HOME",
                     "unpack Apache Hadoop 3 and set HADOOP_HOME");
  }
  const std::string version = jar_version(home_of(*path) / "share/hadoop/common", "hadoop-common-");
  return found_at("hdfs", version.empty() ? "version not known" : version, *path);
}

}  // namespace

std::optional<std::string> find_program(const std::string& name, const Variables& variables,
                                        const std::string& home_variable) {
  const auto runs = [](const fs::path& file) {
    std::error_code error;
    return fs::is_regular_file(file, error) && ::access(file.c_str(), X_OK) == 0;
  };
  if (!home_variable.empty()) {
    if (const auto home = variables(home_variable)) {
      const fs::path file = fs::path(*home) / "bin" / name;
      if (runs(file)) return file.string();
    }
  }
  const std::string path = variables("PATH").value_or("");
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const fs::path file = fs::path(path.substr(begin, end - begin)) / name;
    if (end > begin && runs(file)) return file.string();
    begin = end + 1;
  }
  return std::nullopt;
}

std::vector<Capability> check_big_data(const Variables& variables) {
  std::vector<Capability> all;
  all.push_back(check_java(variables));
  all.push_back(check_spark(variables));
  all.push_back(check_hdfs(variables));
  return all;
}

}  // namespace dlobd::app
