#include "transport/endpoint.h"

#include <fmt/format.h>

#include "base/check.h"

namespace dlobd::transport {

Endpoint::Endpoint(base::Loop& loop, int rank, int world_size)
    : loop_(loop), rank_(rank), world_size_(world_size) {
  for (std::size_t kind = 0; kind < kMaxKinds; ++kind) arrivals_.emplace_back(loop);
}

base::Task<base::Result<Arrival>> Endpoint::next(Kind kind) {
  CHECK(kind < kMaxKinds, "kind {} of at most {}", kind, kMaxKinds);
  if (arrivals_[kind].size() == 0 && !error_) glance();
  return arrivals_[kind].pop();
}

void Endpoint::fail(base::Error error) {
  if (error_) return;
  error_ = error;
  for (auto& queue : arrivals_) queue.fail(error);
  failed();
}

void Endpoint::arrived(Kind kind, Arrival arrival, Traffic traffic) {
  auto& count = counters_.received[static_cast<std::size_t>(traffic)];
  ++count.messages;
  count.bytes += arrival.bytes;
  arrivals_[kind].push(std::move(arrival));
}

void Endpoint::count_sent(Traffic traffic, std::uint64_t bytes) {
  auto& count = counters_.sent[static_cast<std::size_t>(traffic)];
  ++count.messages;
  count.bytes += bytes;
}

void Endpoint::link_broke(int peer, base::Error why) {
  if (error_) return;
  if (link_broken_) {
    link_broken_(peer, why);
  } else {
    fail(base::Error(base::ErrorKind::peer_lost,
                     fmt::format("peer lost: rank {}: {}", peer, why.message), peer));
  }
}

}  // namespace dlobd::transport
