#include "exchange/cos_arrivals.h"

#include <algorithm>
#include <utility>

#include "exchange/kinds.h"
#include "exchange/not_due.h"

namespace dlobd::exchange {
namespace {

// Which buffer was written, as the original's immediate says it, and of which step.
std::uint32_t index_of(CosMessage what, std::uint64_t step) {
  return static_cast<std::uint32_t>(step << 1U) | static_cast<std::uint32_t>(what);
}

transport::Kind kind_of(CosMessage what) {
  return what == CosMessage::weights ? kind::weights : kind::gradients;
}

}  // namespace

transport::Notification CosArrivals::notification(CosMessage what, std::uint64_t step) const {
  return {untyped_ ? kind::weights : kind_of(what), index_of(what, step)};
}

base::Task<base::Result<void>> CosArrivals::take(CosMessage awaited) {
  auto arrival = co_await endpoint_.next(untyped_ ? kind::weights : kind_of(awaited));
  DLOBD_CO_CHECK(arrival);
  CosMessage what = awaited;
  if (untyped_) what = (arrival->index & 1U) == 0 ? CosMessage::weights : CosMessage::gradients;
  if (what != awaited) ++confused_[at(what)];
  here_[at(what)].push_back(std::move(*arrival));
  co_return base::Result<void>();
}

base::Task<base::Result<void>> CosArrivals::from(int peer, CosMessage what, std::uint64_t step,
                                                 std::uint64_t bytes) {
  auto& here = here_[at(what)];
  const auto of_peer = [peer](const transport::Arrival& each) { return each.source == peer; };
  auto found = std::find_if(here.begin(), here.end(), of_peer);
  while (found == here.end()) {
    auto taken = co_await take(what);
    DLOBD_CO_CHECK(taken);
    found = std::find_if(here.begin(), here.end(), of_peer);
  }
  const transport::Arrival arrival = std::move(*found);
  here.erase(found);
  co_return check(arrival, what, step, bytes);
}

base::Task<base::Result<int>> CosArrivals::from_any(CosMessage what, std::uint64_t step,
                                                    std::uint64_t bytes) {
  auto& here = here_[at(what)];
  while (here.empty()) {
    auto taken = co_await take(what);
    DLOBD_CO_CHECK(taken);
  }
  const transport::Arrival arrival = std::move(here.front());
  here.pop_front();
  auto due = check(arrival, what, step, bytes);
  DLOBD_CO_CHECK(due);
  co_return arrival.source;
}

base::Result<void> CosArrivals::check(const transport::Arrival& arrival, CosMessage what,
                                      std::uint64_t step, std::uint64_t bytes) const {
  if (arrival.index == index_of(what, step) && arrival.bytes == bytes) return {};
  return not_due(arrival, what == CosMessage::weights ? "a weight slice" : "a gradient slice",
                 index_of(what, step), bytes);
}

}  // namespace dlobd::exchange
