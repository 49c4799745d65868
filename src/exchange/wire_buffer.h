// A buffer of gradients that is reduced, the form in which it travels, scratch memory for what
// peers send to be added, and what this rank owes. Belongs to the loop's thread.
//
// As float32 the buffer travels as it is: it is registered, and finished sums land in it. As one of
// 16 bits, every element is rounded into a second buffer, from which it is sent and into which
// finished sums land; all ranks decode the same bits. Whoever rounds owes what that cost, and adds
// it to the same element of its next step (error feedback, Residuals).
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "compute/arena.h"
#include "compute/kernels.h"
#include "exchange/residuals.h"
#include "transport/endpoint.h"

namespace dlobd::exchange {

class WireBuffer {
 public:
  // Registers the travelling form as region::gradients, scratch memory of `scratch` elements as
  // region::scratch, and the residuals. Endpoint, kernels and data outlive it.
  WireBuffer(transport::Endpoint& endpoint, const compute::Kernels& kernels,
             compute::WireElement element, std::span<float> data, std::size_t scratch,
             compute::Backing backing);

  [[nodiscard]] bool rounds() const { return residuals_ != nullptr; }
  [[nodiscard]] std::size_t element_bytes() const { return compute::bytes_of(element_); }
  [[nodiscard]] std::size_t size() const { return data_.size(); }
  [[nodiscard]] std::span<float> data(compute::Range range) const {
    return data_.subspan(range.begin, range.size());
  }
  // As it was last rounded, or has landed.
  [[nodiscard]] std::span<const std::byte> moved(compute::Range range) const;
  // What ranks owe to the next step; none where elements are float32.
  [[nodiscard]] Residuals* residuals() const { return residuals_.get(); }
  [[nodiscard]] std::span<float> all_residuals() const {
    return residuals_ ? residuals_->all() : std::span<float>();
  }

  // Before anything of a step: what this rank owes joins its own values.
  void take_what_is_owed(compute::Range range) const;
  // data as it travels from here, rounded; `owed_here`: by this rank.
  [[nodiscard]] std::span<const std::byte> outgoing(compute::Range range,
                                                    bool owed_here = true) const;
  // data += what has arrived at `slot` elements into the scratch memory.
  void add(compute::Range range, std::size_t slot) const;
  // data = the sum that another rank has finished and that is here.
  void land(compute::Range range) const;

 private:
  [[nodiscard]] std::span<std::byte> part(std::span<std::byte> whole, std::size_t first,
                                          std::size_t size) const {
    return whole.subspan(first * element_bytes(), size * element_bytes());
  }
  [[nodiscard]] std::span<float> owed(compute::Range range) const {
    return residuals_->own().subspan(range.begin, range.size());
  }

  const compute::Kernels& kernels_;
  compute::WireElement element_;
  std::span<float> data_;
  compute::ParameterArena scratch_memory_;
  std::unique_ptr<compute::ParameterArena> moved_memory_;  // none: data_ itself
  std::unique_ptr<Residuals> residuals_;                   // of 16 bits
  std::span<std::byte> scratch_;
  std::span<std::byte> moved_;
};

}  // namespace dlobd::exchange
