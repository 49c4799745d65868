// In a build without libfabric: nothing is there, and asking for it says so.
#include "transport/fabric/endpoint.h"
#include "transport/fabric/providers.h"

namespace dlobd::transport::fabric {

bool built_in() {
  return false;
}

std::string library_version() {
  return {};
}

std::vector<Provider> list() {
  return {};
}

base::Result<std::string> choose(std::string_view asked) {
  return choose(asked, list());
}

base::Result<std::unique_ptr<FabricEndpoint>> FabricEndpoint::make(base::Loop&, int, int,
                                                                   Options options) {
  DLOBD_TRY(provider, choose(options.provider));
  return base::fail(
      base::ErrorKind::unavailable,
      "this build has no libfabric, configure it with DLOBD_FABRIC=ON: provider " + provider);
}

}  // namespace dlobd::transport::fabric
