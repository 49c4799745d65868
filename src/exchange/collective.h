// The all-reduce as a plain collective, on any range of one registered buffer: what the exchange
// `allreduce` and the micro-benchmark call. It picks recursive doubling where latency decides and
// the ring where bandwidth does.
//
// All ranks make the same calls in the same order, one at a time. The constructor registers the
// buffer and scratch memory of about its size; connect the endpoint after it.
// Errors: the endpoint's; corrupt_data for a message that is not due. On the loop's thread.
#pragma once

#include <cstddef>
#include <span>

#include "base/loop.h"
#include "base/result.h"
#include "compute/arena.h"
#include "compute/kernels.h"
#include "exchange/lanes.h"
#include "exchange/wire_buffer.h"

namespace dlobd::exchange {

enum class Algorithm { automatic, ring, recursive_doubling };

// Elements of one message of the ring, at most: 256 KiB, so that adding one segment overlaps with
// the transfer of the next, and the cost of a message is still small beside its bytes.
inline constexpr std::size_t kSegmentElements = 64 * 1024;

struct CollectiveOptions {
  Algorithm algorithm = Algorithm::automatic;
  std::size_t segment_elements = kSegmentElements;
  compute::WireElement element = compute::WireElement::float32;  // wire_buffer.h
};

// The largest range, in elements, for which N ranks are better off doubling.
std::size_t doubling_limit(int world_size, std::size_t element_bytes = sizeof(float));
// ring or recursive_doubling.
Algorithm chosen(CollectiveOptions options, int world_size, std::size_t elements);

class Collective {
 public:
  // `largest`: elements of the largest range that will be reduced.
  Collective(transport::Endpoint& endpoint, const compute::Kernels& kernels,
             std::span<float> buffer, std::size_t largest, CollectiveOptions options = {},
             compute::Backing backing = compute::Backing::memory);

  // buffer[range] becomes factor times the sum over all ranks.
  base::Task<base::Result<void>> all_reduce(compute::Range range, float factor = 1);
  [[nodiscard]] const WireBuffer& buffer() const { return buffer_; }

 private:
  CollectiveOptions options_;
  std::size_t largest_;
  std::size_t largest_doubled_;
  WireBuffer buffer_;
  Lanes lanes_;
  bool odd_ = false;
};

}  // namespace dlobd::exchange
