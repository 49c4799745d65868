#include "transport/endpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "base/lookout.h"

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

base::Error Endpoint::not_connected(const std::vector<int>& ranks, base::Duration waited) {
  return {base::ErrorKind::deadline_exceeded,
          fmt::format("peers did not connect in {} ms: ranks {}",
                      waited / std::chrono::milliseconds(1), fmt::join(ranks, ", ")),
          ranks.front()};
}

base::Task<void> Endpoint::wait_for(base::Waiters& changed, const std::function<bool()>& done,
                                    base::Duration longest) {
  base::Lookout lookout(longest);
  base::Time begin = loop_.now();
  for (base::Time now = begin; !done() && now - begin < longest; now = loop_.now()) {
    lookout.arm(now);
    const base::TimerId timer = loop_.call_at(lookout.due(), [&changed] { changed.wake_all(); });
    co_await changed.wait();
    loop_.cancel(timer);
    if (!lookout.on_time(loop_.now())) begin = loop_.now();
  }
}

// A peer that runs says it at once: this one does not, or its bytes do not come through.
base::Error Endpoint::no_goodbye(const std::vector<int>& ranks, base::Duration waited) {
  base::Error why(base::ErrorKind::peer_lost,
                  fmt::format("no goodbye in {} ms: ranks {}",
                              waited / std::chrono::milliseconds(1), fmt::join(ranks, ", ")),
                  ranks.front());
  link_broke(ranks.front(), why);
  return why;
}

}  // namespace dlobd::transport
