#include "exchange/lanes.h"

namespace dlobd::exchange {

Lane::Lane(transport::Endpoint& endpoint, transport::Kind kind, transport::RegionId target,
           const char* what)
    : endpoint_(endpoint),
      kind_(kind),
      target_(target),
      inbox_(endpoint, kind, what),
      sent_(static_cast<std::size_t>(endpoint.world_size())),
      received_(static_cast<std::size_t>(endpoint.world_size())) {}

base::Task<base::Result<void>> Lane::write(int peer, std::size_t offset,
                                           std::span<const float> elements) {
  const std::uint32_t number = sent_.at(static_cast<std::size_t>(peer))++;
  const transport::Notification notification{kind_, number};
  transport::Write write(peer, target_, offset * sizeof(float), std::as_bytes(elements),
                         notification, transport::Traffic::data);
  return endpoint_.write(write);
}

base::Task<base::Result<void>> Lane::from(int peer, std::size_t elements) {
  const std::uint32_t number = received_.at(static_cast<std::size_t>(peer))++;
  return inbox_.from(peer, number, elements * sizeof(float));
}

}  // namespace dlobd::exchange
