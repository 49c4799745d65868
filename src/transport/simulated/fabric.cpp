#include "transport/simulated/fabric.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace dlobd::transport::simulated {

namespace {

// bytes * part / whole, for 0 <= part <= whole.
std::uint64_t share(std::uint64_t bytes, base::Duration part, base::Duration whole) {
  if (whole <= base::Duration::zero()) return part >= base::Duration::zero() ? bytes : 0;
  const std::int64_t clamped = std::clamp<std::int64_t>(part.count(), 0, whole.count());
  const auto scaled = static_cast<unsigned __int128>(bytes) * static_cast<std::uint64_t>(clamped);
  return static_cast<std::uint64_t>(scaled / static_cast<std::uint64_t>(whole.count()));
}

}  // namespace

Fabric::Fabric(base::Loop& loop, const LinkModel& model, int world_size, std::uint64_t seed,
               Payload payload)
    : loop_(loop), model_(model), seed_(seed), payload_(payload) {
  CHECK(world_size > 0, "world size {}", world_size);
  for (int i = 0; i < world_size; ++i) {
    ranks_.emplace_back(loop).broken.resize(static_cast<std::size_t>(world_size));
  }
  faults_.on_change([this](const Fault& fault) { apply(fault); });
}

void Fabric::attach(int id, Port* port) {
  Rank& self = rank(id);
  CHECK(port == nullptr || self.port == nullptr, "rank {} has an endpoint already", id);
  self.port = port;
}

void Fabric::connected(int id) {
  if (rank(id).connected) return;
  rank(id).connected = true;
  ++connected_;
  if (all_connected()) {
    for (Rank& each : ranks_) each.changed.wake_all();
  }
}

Fabric::Link& Fabric::link(int from, int to) {
  auto& out = rank(from).out;
  const auto found = out.find(to);
  if (found != out.end()) return found->second;
  const auto source = static_cast<std::uint64_t>(from);
  const auto destination = static_cast<std::uint64_t>(to);
  return out.emplace(to, Link(base::Random::of({seed_, source, destination}))).first->second;
}

bool Fabric::unresponsive(int from, int to) const {
  return faults_.is_stopped(to) || faults_.is_cut_off(from) || faults_.is_cut_off(to);
}

bool Fabric::arrives(const Flight& flight) const {
  const int to = flight.destination;
  return faults_.alive(to) && !unresponsive(flight.source, to) &&
         !faults_.is_cut(flight.source, to) && !ranks_[static_cast<std::size_t>(to)].closed;
}

void Fabric::after(base::Time when, base::UniqueFunction<void(Fabric&)> function) {
  loop_.call_at(when,
                [self = shared_from_this(), call = std::move(function)]() mutable { call(*self); });
}

void Fabric::depart(Held flight) {
  Rank& source = rank(flight->source);
  Link& way = link(flight->source, flight->destination);
  flight->id = ++last_id_;
  source.departing.emplace(flight->id, flight);
  const auto planned = source.strikes.find(++source.messages);
  if (planned != source.strikes.end()) flight->strike = planned->second;
  const auto peer = static_cast<std::size_t>(flight->destination);
  if (source.closed || source.broken[peer] || faults_.is_stopped(flight->source) ||
      faults_.is_cut(flight->source, flight->destination)) {
    flight->lost = true;  // the writer waits for its endpoint's verdict
    if (flight->strike) after(loop_.now(), [flight](Fabric& self) { self.strike_within(flight); });
    return;
  }

  const std::uint64_t bytes = flight->bytes.size();
  const base::Time begin = std::max(loop_.now(), source.send_free);
  const base::Time first_written = begin + model_.send_per_message + model_.send_per_piece;
  const base::Time written =
      begin + model_.send_per_message + model_.pieces(bytes) * model_.send_per_piece;
  source.send_free = written;
  flight->egress_start = std::max(first_written, source.egress_free);
  flight->egress_end = std::max(flight->egress_start + model_.wire_time(bytes), written);
  source.egress_free = flight->egress_end;

  base::Duration delay = model_.latency;
  if (model_.jitter > base::Duration::zero()) {
    const auto bound = static_cast<std::uint64_t>(model_.jitter.count()) + 1;
    delay += base::Duration(static_cast<std::int64_t>(way.random.below(bound)));
  }
  flight->reach = std::max(flight->egress_start + delay, way.last_byte);
  way.last_byte = flight->reach + (flight->egress_end - flight->egress_start);
  way.flights.push_back(flight);
  after(flight->egress_end, [flight](Fabric& self) { self.leave(flight); });
  after(flight->reach, [flight](Fabric& self) { self.reach(flight); });
}

void Fabric::leave(const Held& flight) {
  const int from = flight->source;
  const int to = flight->destination;
  Rank& source = rank(from);
  if (source.closed || source.broken[static_cast<std::size_t>(to)] || faults_.is_stopped(from) ||
      faults_.is_cut(from, to)) {
    return;
  }
  if (unresponsive(from, to)) {
    Link& way = link(from, to);
    way.unread_bytes += flight->bytes.size();
    if (way.stalled) return;
    if (way.unread_bytes > model_.window_bytes) {
      way.stalled = true;
      after(loop_.now() + model_.peer_timeout, [from, to](Fabric& self) {
        self.broke(from, to,
                   fmt::format("the peer takes no more bytes: rank {}, none in {} ms", to,
                               self.model_.peer_timeout / std::chrono::milliseconds(1)));
      });
      return;
    }
  }
  if (!flight->lost && (moves_payload() || !flight->region)) {
    flight->captured.assign(flight->bytes.begin(), flight->bytes.end());
  }
  flight->has_left = true;
  source.departing.erase(flight->id);
  flight->departed.set();
}

void Fabric::reach(const Held& flight) {
  const int to = flight->destination;
  if (flight->lost || !arrives(*flight)) {
    if (!flight->lost) lose(flight, 0);
    if (flight->strike) strike_within(flight);
    return;
  }
  Rank& destination = rank(to);
  const base::Duration on_wire = model_.wire_time(flight->bytes.size());
  flight->ingress_start = std::max(flight->reach, destination.ingress_free);
  destination.ingress_free = flight->ingress_start + on_wire;
  flight->ingress_end = std::max(flight->ingress_start + on_wire,
                                 flight->reach + (flight->egress_end - flight->egress_start));
  flight->has_reached = true;
  if (flight->strike) {
    const base::Duration arriving = flight->ingress_end - flight->ingress_start;
    after(flight->ingress_start + arriving / 2,
          [flight](Fabric& self) { self.strike_within(flight); });
  }
  after(flight->ingress_end, [flight](Fabric& self) { self.receive(flight); });
}

void Fabric::receive(const Held& flight) {
  if (flight->lost) return;
  Rank& destination = rank(flight->destination);
  const base::Duration reading = model_.pieces(flight->bytes.size()) * model_.receive_per_piece;
  const base::Time begin = std::max(flight->ingress_start, destination.receive_free);
  const base::Time done =
      std::max(begin + reading, flight->ingress_end) + model_.receive_per_message;
  destination.receive_free = done;
  if (done <= flight->ingress_end) {
    deliver(flight);
  } else {
    after(done, [flight](Fabric& self) { self.deliver(flight); });
  }
}

void Fabric::deliver(const Held& flight) {
  if (flight->lost) return;
  Rank& destination = rank(flight->destination);
  if (!arrives(*flight)) {
    lose(flight, 0);
    return;
  }
  if (destination.port != nullptr) {
    destination.port->land(
        *flight, flight->has_left ? std::span<const std::byte>(flight->captured) : flight->bytes);
  }
  remove(link(flight->source, flight->destination), flight);
}

void Fabric::strike_within(const Held& flight) {
  const Fault fault = *flight->strike;
  flight->strike.reset();
  if (!flight->lost && fault.concerns(flight->source, flight->destination)) {
    lose_from(link(flight->source, flight->destination), flight->id);
  }
  faults_.strike(fault);
}

bool Fabric::has_outgoing(int id) {
  Rank& self = rank(id);
  return std::any_of(self.out.begin(), self.out.end(), [&self](const auto& entry) {
    const auto& [peer, way] = entry;
    return !way.flights.empty() && !self.broken[static_cast<std::size_t>(peer)];
  });
}

void Fabric::shut(int id) {
  rank(id).shut = true;
}

void Fabric::remove(Link& way, const Held& flight) {
  const auto found = std::find(way.flights.begin(), way.flights.end(), flight);
  if (found == way.flights.end()) return;
  way.flights.erase(found);
  rank(flight->source).changed.wake_all();
  if (way.flights.empty() && way.ends) end(flight->source, flight->destination);
}

std::uint64_t Fabric::arrived_bytes(const Flight& flight) const {
  if (!flight.has_reached) return 0;
  return share(flight.bytes.size(), loop_.now() - flight.ingress_start,
               flight.ingress_end - flight.ingress_start);
}

void Fabric::lose(const Held& flight, std::uint64_t landed_bytes) {
  flight->lost = true;
  Link& way = link(flight->source, flight->destination);
  const Rank& destination = rank(flight->destination);
  const auto all = flight->has_left ? std::span<const std::byte>(flight->captured) : flight->bytes;
  if (landed_bytes > 0) {
    way.partly = fmt::format("{} of {} bytes", landed_bytes, flight->bytes.size());
    if (moves_payload() && destination.port != nullptr && !destination.closed &&
        !faults_.is_stopped(flight->destination)) {
      destination.port->land_part(*flight, all.first(landed_bytes));
    }
  }
  remove(way, flight);
}

void Fabric::lose_from(Link& way, std::uint64_t id) {
  const std::deque<Held> flights = way.flights;
  for (const Held& flight : flights) {
    if (flight->id >= id) lose(flight, arrived_bytes(*flight));
  }
}

}  // namespace dlobd::transport::simulated
