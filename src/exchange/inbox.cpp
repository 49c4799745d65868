#include "exchange/inbox.h"

#include <utility>

#include "exchange/not_due.h"

namespace dlobd::exchange {

Inbox::Inbox(transport::Endpoint& endpoint, transport::Kind kind, std::string what)
    : endpoint_(endpoint),
      kind_(kind),
      what_(std::move(what)),
      early_(static_cast<std::size_t>(endpoint.world_size())) {}

base::Task<base::Result<void>> Inbox::from(int peer, std::uint32_t index, std::uint64_t bytes) {
  auto& early = early_.at(static_cast<std::size_t>(peer));
  while (early.empty()) {
    auto arrival = co_await endpoint_.next(kind_);
    DLOBD_CO_CHECK(arrival);
    const auto source = static_cast<std::size_t>(arrival->source);
    early_.at(source).push_back(std::move(*arrival));
  }
  const transport::Arrival arrival = std::move(early.front());
  early.pop_front();
  co_return check(arrival, index, bytes);
}

base::Result<void> Inbox::check(const transport::Arrival& arrival, std::uint32_t index,
                                std::uint64_t bytes) const {
  if (arrival.index == index && arrival.bytes == bytes) return {};
  return not_due(arrival, what_, index, bytes);
}

}  // namespace dlobd::exchange
