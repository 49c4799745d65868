#include "exchange/lanes.h"

namespace dlobd::exchange {

Lane::Lane(transport::Endpoint& endpoint, transport::Kind kind, transport::RegionId target,
           std::size_t element_bytes, const char* what)
    : endpoint_(endpoint),
      kind_(kind),
      target_(target),
      element_bytes_(element_bytes),
      inbox_(endpoint, kind, what),
      sent_(static_cast<std::size_t>(endpoint.world_size())),
      received_(static_cast<std::size_t>(endpoint.world_size())) {}

base::Task<base::Result<void>> Lane::write(int peer, std::size_t offset,
                                           std::span<const std::byte> elements) {
  const std::uint32_t number = sent_.at(static_cast<std::size_t>(peer))++;
  const transport::Notification notification{kind_, number};
  transport::Write write(peer, target_, offset * element_bytes_, elements, notification,
                         transport::Traffic::data);
  return endpoint_.write(write);
}

base::Task<base::Result<void>> Lane::from(int peer, std::size_t elements) {
  const std::uint32_t number = received_.at(static_cast<std::size_t>(peer))++;
  return inbox_.from(peer, number, elements * element_bytes_);
}

std::span<const std::byte> Lanes::finish(compute::Range range, float factor, bool owed_here) const {
  const auto wire = buffer.outgoing(range, owed_here);
  scale(range, factor);
  return wire;
}

void Lanes::land(compute::Range range, float factor) const {
  if (!buffer.rounds()) return;
  buffer.land(range);
  scale(range, factor);
}

void Lanes::scale(compute::Range range, float factor) const {
  if (factor != 1.0F) kernels.scale(buffer.data(range), factor);
}

}  // namespace dlobd::exchange
