#include "exchange/wire_buffer.h"

#include "exchange/buffer.h"
#include "exchange/halves.h"
#include "exchange/kinds.h"

namespace dlobd::exchange {

WireBuffer::WireBuffer(transport::Endpoint& endpoint, const compute::Kernels& kernels,
                       compute::WireElement element, std::span<float> data, std::size_t scratch,
                       compute::Backing backing)
    : kernels_(kernels),
      element_(element),
      data_(data),
      scratch_memory_(make_buffer("scratch", floats_for(scratch, element_bytes()), backing)),
      scratch_(std::as_writable_bytes(scratch_memory_.parameters())),
      moved_(std::as_writable_bytes(data)) {
  if (element != compute::WireElement::float32) {
    moved_memory_ = std::make_unique<compute::ParameterArena>(
        make_buffer("moved", floats_for(data.size(), element_bytes()), backing));
    moved_ = std::as_writable_bytes(moved_memory_->parameters());
    residuals_ = std::make_unique<Residuals>(endpoint, data.size(), backing);
  }
  endpoint.register_memory(region::gradients, moved_);
  endpoint.register_memory(region::scratch, scratch_);
}

std::span<const std::byte> WireBuffer::moved(compute::Range range) const {
  return part(moved_, range.begin, range.size());
}

void WireBuffer::take_what_is_owed(compute::Range range) const {
  if (rounds()) kernels_.take(data(range), owed(range));
}

std::span<const std::byte> WireBuffer::outgoing(compute::Range range, bool owed_here) const {
  const auto wire = part(moved_, range.begin, range.size());
  if (rounds()) {
    kernels_.round(element_, halves_of(wire), data(range),
                   owed_here ? owed(range) : std::span<float>());
  }
  return wire;
}

void WireBuffer::add(compute::Range range, std::size_t slot) const {
  const auto bytes = part(scratch_, slot, range.size());
  if (rounds()) {
    kernels_.add_decoded(element_, data(range), halves_of(bytes));
    return;
  }
  kernels_.add(data(range),
               std::span<const float>(reinterpret_cast<const float*>(bytes.data()), range.size()));
}

void WireBuffer::land(compute::Range range) const {
  if (!rounds()) return;
  kernels_.decode(element_, data(range), halves_of(part(moved_, range.begin, range.size())));
}

}  // namespace dlobd::exchange
