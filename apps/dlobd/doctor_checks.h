// What `dlobd doctor` looks at: each check says what it found and, where something is missing or
// could be better, what would bring it. Checks read and run small programs; they change nothing.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace dlobd::app {

enum class Finding { ok, note, missing };  // note: there, but read on

struct Capability {
  std::string name;  // "memory"
  Finding finding = Finding::ok;
  std::string found;                                  // one line
  std::string remedy;                                 // what to do; empty: nothing
  nlohmann::json details = nlohmann::json::object();  // for --json
};

// The value of an environment variable; nothing: not set or empty.
using Variables = std::function<std::optional<std::string>(const std::string& name)>;

// Cores and quota, memory, interfaces, RDMA devices, libfabric, GPUs.
std::vector<Capability> check_hardware(const Variables& variables);
// libtorch, oneDNN, cuDNN, BLAS: in a child process.
std::vector<Capability> check_compute(const Variables& variables);
// Java, Spark, HDFS.
std::vector<Capability> check_big_data(const Variables& variables);

// The program `name` in the bin/ of the folder that `home_variable` names, else on PATH; nothing:
// neither.
std::optional<std::string> find_program(const std::string& name, const Variables& variables,
                                        const std::string& home_variable = "");

}  // namespace dlobd::app
