// The weight and gradient messages of CaffeOnSpark as they arrive, in one queue for both, as its
// RDMA variant has them (`untyped`), or in one for each kind.
//
// The original takes the next notification for one of the kind that it waits for. A fast peer's
// weights may come before a slow peer's gradients: it would add them up as if they were some. Here
// a message of the other kind is put aside until it is due, and counted: how often the original
// would have confused them. Errors: the endpoint's; corrupt_data for a message that is not due. On
// the loop's thread; one waiting coroutine at a time.
#pragma once

#include <array>
#include <cstdint>
#include <deque>

#include "base/loop.h"
#include "base/result.h"
#include "transport/endpoint.h"

namespace dlobd::exchange {

enum class CosMessage : std::uint8_t { weights, gradients };

class CosArrivals {
 public:
  CosArrivals(transport::Endpoint& endpoint, bool untyped)
      : endpoint_(endpoint), untyped_(untyped) {}

  // What a sender attaches.
  [[nodiscard]] transport::Notification notification(CosMessage what, std::uint64_t step) const;

  // Rank `peer`'s message of this step, of `bytes`.
  base::Task<base::Result<void>> from(int peer, CosMessage what, std::uint64_t step,
                                      std::uint64_t bytes);
  // Whoever's comes first. Gives the peer.
  base::Task<base::Result<int>> from_any(CosMessage what, std::uint64_t step, std::uint64_t bytes);

  // Messages that came while one of the other kind was waited for, by their kind.
  [[nodiscard]] std::uint64_t confused(CosMessage what) const { return confused_[at(what)]; }

 private:
  static std::size_t at(CosMessage what) { return static_cast<std::size_t>(what); }
  // One more into `here_`.
  base::Task<base::Result<void>> take(CosMessage awaited);
  [[nodiscard]] base::Result<void> check(const transport::Arrival& arrival, CosMessage what,
                                         std::uint64_t step, std::uint64_t bytes) const;

  transport::Endpoint& endpoint_;
  bool untyped_;
  std::array<std::deque<transport::Arrival>, 2> here_;  // by kind, in order of arrival
  std::array<std::uint64_t, 2> confused_{};
};

}  // namespace dlobd::exchange
