// The half of the fabric that breaks things.
#include <fmt/format.h>

#include "base/check.h"
#include "transport/simulated/fabric.h"

namespace dlobd::transport::simulated {

void Fabric::strike_at(base::Time when, const Fault& fault) {
  after(when, [fault](Fabric& self) { self.strike(fault); });
}

void Fabric::at_message(int id, std::uint64_t n, const Fault& fault) {
  CHECK(n > rank(id).messages, "message {} of rank {} is past", n, id);
  rank(id).strikes.emplace(n, fault);
}

void Fabric::truncate(int from, int to) {
  const auto found = rank(from).out.find(to);
  if (found == rank(from).out.end()) return;
  const base::Time now = loop_.now();
  const std::deque<Held> flights = found->second.flights;
  for (const Held& flight : flights) {
    if (flight->egress_end <= now) continue;
    const base::Duration on_wire = flight->egress_end - flight->egress_start;
    const std::int64_t sent = std::max<std::int64_t>(0, (now - flight->egress_start).count());
    const auto scaled =
        static_cast<unsigned __int128>(flight->bytes.size()) * static_cast<std::uint64_t>(sent);
    const auto part =
        on_wire.count() > 0 ? scaled / static_cast<std::uint64_t>(on_wire.count()) : 0;
    lose(flight, static_cast<std::uint64_t>(part));
  }
}

void Fabric::lose_all(int from, int to) {
  const auto found = rank(from).out.find(to);
  if (found != rank(from).out.end()) lose_from(found->second, 0);
}

void Fabric::close(int id) {
  Rank& self = rank(id);
  if (self.closed) return;
  self.closed = true;
  for (auto& [number, flight] : self.departing) flight->departed.set();
  self.departing.clear();
  self.changed.wake_all();
  const base::Time noticed = loop_.now() + model_.latency + model_.detection_delay;
  for (int peer = 0; peer < static_cast<int>(ranks_.size()); ++peer) {
    if (peer == id) continue;
    truncate(id, peer);
    lose_all(peer, id);
    if (!self.shut) after(noticed, [id, peer](Fabric& fabric) { fabric.end(id, peer); });
  }
}

void Fabric::end(int from, int to) {
  if (faults_.is_cut_off(from) || faults_.is_cut_off(to))
    return;  // word of it does not pass either
  std::string partly;
  const auto found = rank(from).out.find(to);
  if (found != rank(from).out.end()) {
    Link& way = found->second;
    way.ends = true;
    if (!way.flights.empty()) return;
    partly = way.partly;
  }
  broke(to, from,
        partly.empty()
            ? fmt::format("peer closed the connection: rank {}", from)
            : fmt::format("peer closed the connection while receiving a message: rank {}, {}", from,
                          partly));
}

void Fabric::broke(int at, int peer, std::string why) {
  Rank& self = rank(at);
  const auto index = static_cast<std::size_t>(peer);
  if (self.port == nullptr || self.closed || self.shut || self.broken[index] || rank(peer).shut ||
      faults_.is_stopped(at)) {
    return;
  }
  self.broken[index] = true;
  self.port->broke(peer, base::Error(base::ErrorKind::io_error, std::move(why), peer));
}

void Fabric::apply(const Fault& fault) {
  const int id = fault.rank;
  const auto world_size = static_cast<int>(ranks_.size());
  switch (fault.kind) {
    case Fault::Kind::kill:
      if (rank(id).port != nullptr) rank(id).port->killed();
      close(id);
      break;
    case Fault::Kind::stop:
      for (int peer = 0; peer < world_size; ++peer) truncate(id, peer);
      break;
    case Fault::Kind::cut_off:
      for (int peer = 0; peer < world_size; ++peer) {
        truncate(id, peer);
        truncate(peer, id);
      }
      break;
    case Fault::Kind::cut: {
      const int peer = fault.peer;
      lose_all(id, peer);
      lose_all(peer, id);
      after(loop_.now() + model_.detection_delay, [id, peer](Fabric& fabric) {
        fabric.broke(id, peer, fmt::format("connection reset: rank {}", peer));
        fabric.broke(peer, id, fmt::format("connection reset: rank {}", id));
      });
      break;
    }
  }
}

}  // namespace dlobd::transport::simulated
