#include "transport/fabric/providers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "metrics/devices.h"
#include "transport/fabric/adapter.h"

namespace dlobd::transport::fabric {

bool built_in() {
  return true;
}

std::string library_version() {
  const std::uint32_t packed = fi_version();
  return fmt::format("{}.{}", FI_MAJOR(packed), FI_MINOR(packed));
}

std::vector<Provider> list() {
  const Info wanted = hints();
  fi_info* found = nullptr;
  if (fi_getinfo(FI_VERSION(1, 15), nullptr, nullptr, 0, wanted.get(), &found) != 0) return {};
  const Info owner(found);
  const auto devices = metrics::read_rdma_devices();
  std::vector<Provider> all;
  for (const fi_info* info = found; info != nullptr; info = info->next) {
    Provider one;
    one.name = info->fabric_attr->prov_name;
    one.domain = info->domain_attr->name != nullptr ? info->domain_attr->name : "";
    one.fabric = info->fabric_attr->name != nullptr ? info->fabric_attr->name : "";
    one.software = is_software(one.name);
    for (const auto& device : devices) {
      if (device.name == one.domain && device.software) one.software = true;
    }
    const bool known = std::any_of(all.begin(), all.end(), [&one](const Provider& other) {
      return other.name == one.name && other.domain == one.domain;
    });
    if (!known) all.push_back(std::move(one));
  }
  return all;
}

base::Result<std::string> choose(std::string_view asked) {
  return choose(asked, list());
}

}  // namespace dlobd::transport::fabric
