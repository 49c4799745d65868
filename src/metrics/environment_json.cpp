#include <fmt/format.h>

#include "metrics/environment.h"
#include "metrics/json_fields.h"

namespace dlobd::metrics {
namespace {

// Every field by its key; `visit` sees (key, optional).
template <class Env, class Visit>
void for_each_field(Env& environment, Visit visit) {
  visit("cpu_model", environment.cpu_model);
  visit("cores", environment.cores);
  visit("quota", environment.quota);
  visit("affinity", environment.affinity);
  visit("memory_bytes", environment.memory_bytes);
  visit("os_kernel", environment.os_kernel);
  visit("gpu", environment.gpu);
  visit("gpu_driver", environment.gpu_driver);
  visit("provider_used", environment.provider_used);
  visit("software_rdma", environment.software_rdma);
  visit("interface", environment.interface);
  visit("link_speed", environment.link_speed);
  visit("libfabric", environment.libfabric);
  visit("libtorch", environment.libtorch);
  visit("onednn", environment.onednn);
  visit("blas", environment.blas);
  visit("blas_kernel", environment.blas_kernel);
  visit("blas_expected_kernel", environment.blas_expected_kernel);
  visit("blas_chosen_because", environment.blas_chosen_because);
  visit("cuda", environment.cuda);
  visit("cudnn", environment.cudnn);
}

}  // namespace

nlohmann::json to_json(const Environment& environment) {
  nlohmann::json out;
  nlohmann::json unknown = nlohmann::json::object();
  out["host"] = environment.host;
  for_each_field(environment, [&](const char* key, const auto& value) {
    out[key] = nullable(value);
    if (value) return;
    const auto reason = environment.unknown.find(key);
    unknown[key] = reason != environment.unknown.end() ? reason->second : "not used in this run";
  });
  out["unknown"] = std::move(unknown);
  return out;
}

base::Result<Environment> environment_from_json(const nlohmann::json& json) {
  FieldReader::Problem problem;
  const FieldReader in(json, "environment.", problem);
  Environment environment;
  in.optional("host", environment.host);
  for_each_field(environment, [&](const char* key, auto& value) { in.optional(key, value); });
  in.optional("unknown", environment.unknown);
  if (!problem.empty()) return base::fail(base::ErrorKind::corrupt_data, problem.text());
  return environment;
}

}  // namespace dlobd::metrics
