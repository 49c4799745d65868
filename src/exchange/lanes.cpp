#include "exchange/lanes.h"

#include "exchange/halves.h"

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

void Lanes::take_what_is_owed(compute::Range range) const {
  if (rounds()) kernels.take(data_at(range), owed.subspan(range.begin, range.size()));
}

std::span<const std::byte> Lanes::outgoing(compute::Range range, bool owed_here) const {
  if (!rounds()) return moved_at(range);
  const auto wire = part(moved, range.begin, range.size());
  kernels.round(element, halves_of(wire), data_at(range),
                owed_here ? owed.subspan(range.begin, range.size()) : std::span<float>());
  return wire;
}

void Lanes::add(compute::Range range, std::size_t slot) const {
  if (rounds()) {
    kernels.add_decoded(element, data_at(range), halves_of(part(scratch, slot, range.size())));
    return;
  }
  const auto bytes = part(scratch, slot, range.size());
  kernels.add(data_at(range),
              std::span<const float>(reinterpret_cast<const float*>(bytes.data()), range.size()));
}

std::span<const std::byte> Lanes::finish(compute::Range range, float factor, bool owed_here) const {
  if (!rounds()) {
    scale(range, factor);
    return moved_at(range);
  }
  const auto wire = outgoing(range, owed_here);
  scale(range, factor);
  return wire;
}

void Lanes::land(compute::Range range, float factor) const {
  if (!rounds()) return;
  kernels.decode(element, data_at(range), halves_of(part(moved, range.begin, range.size())));
  scale(range, factor);
}

void Lanes::scale(compute::Range range, float factor) const {
  if (factor != 1.0F) kernels.scale(data_at(range), factor);
}

}  // namespace dlobd::exchange
