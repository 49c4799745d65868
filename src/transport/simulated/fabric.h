// The state behind simulated::Network and its endpoints: who may use which link and processor from
// when on, which messages are under way, which links are broken. See link_model.h for the costs.
//
// A message passes four events: leave (its last byte is on the wire: the writer goes on), reach
// (its first byte is at the receiver's link), receive (its last byte is through that link),
// deliver.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/loop.h"
#include "base/random.h"
#include "base/waiters.h"
#include "transport/endpoint.h"
#include "transport/simulated/faults.h"
#include "transport/simulated/link_model.h"
#include "transport/simulated/network.h"

namespace dlobd::transport::simulated {

// One message under way. Owners: the writer that waits, the events, the link's list.
struct Flight {
  explicit Flight(base::Loop& loop) : departed(loop) {}

  int source = 0;
  int destination = 0;
  std::uint64_t id = 0;
  std::span<const std::byte> bytes;  // the sender's, until departed
  std::vector<std::byte> captured;   // from then on, where bytes are moved
  std::optional<RegionId> region;    // none: two-sided
  std::uint64_t offset_bytes = 0;
  Notification notification;
  Traffic traffic = Traffic::data;
  base::Time ready{0};
  base::Time egress_start{0}, egress_end{0};
  base::Time reach{0};
  base::Time ingress_start{0}, ingress_end{0};
  bool has_reached = false;
  bool has_left = false;
  bool lost = false;
  std::optional<Fault> strike;
  base::Event departed;  // also set when the writer's endpoint fails
};

// What the fabric asks of an endpoint.
class Port {
 public:
  virtual ~Port() = default;
  virtual void land(const Flight& flight, std::span<const std::byte> bytes) = 0;
  virtual void land_part(const Flight& flight, std::span<const std::byte> part) = 0;
  virtual void broke(int peer, base::Error why) = 0;
  virtual void killed() = 0;
};

class Fabric : public std::enable_shared_from_this<Fabric> {
 public:
  Fabric(base::Loop& loop, const LinkModel& model, int world_size, std::uint64_t seed,
         Payload payload);

  void attach(int rank, Port* port);
  void connected(int rank);
  [[nodiscard]] bool all_connected() const { return connected_ == ranks_.size(); }
  // Woken when a rank has connected or a message is through. Conditions are checked by the caller.
  base::Waiters& changed(int rank) { return ranks_[static_cast<std::size_t>(rank)].changed; }

  void depart(std::shared_ptr<Flight> flight);
  // Are messages of this rank still under way that could arrive?
  [[nodiscard]] bool has_outgoing(int rank);
  // In order: what follows from the end of its links is no failure.
  void shut(int rank);
  // At once: the peers see its connections end.
  void close(int rank);

  void strike(const Fault& fault) { faults_.strike(fault); }
  void strike_at(base::Time when, const Fault& fault);
  void at_message(int rank, std::uint64_t n, const Fault& fault);

  base::Loop& loop() { return loop_; }
  const LinkModel& model() const { return model_; }
  Faults& faults() { return faults_; }
  [[nodiscard]] bool moves_payload() const { return payload_ == Payload::moved; }

 private:
  using Held = std::shared_ptr<Flight>;

  // From one rank to another.
  struct Link {
    explicit Link(base::Random random) : random(random) {}
    base::Random random;
    base::Time last_byte{0};         // of the latest message, at the receiver
    std::deque<Held> flights;        // that may still arrive, in order
    bool ends = false;               // the sender closed: breaks when the flights are through
    std::string partly;              // what the end found half received
    std::uint64_t unread_bytes = 0;  // taken in by a peer that does not read
    bool stalled = false;
  };
  struct Rank {
    explicit Rank(base::Loop& loop) : changed(loop) {}
    Port* port = nullptr;
    bool connected = false;
    bool shut = false;
    bool closed = false;
    std::uint64_t messages = 0;
    base::Time send_free{0}, egress_free{0}, ingress_free{0}, receive_free{0};
    std::unordered_map<int, Link> out;        // by destination; nothing depends on its order
    std::vector<bool> broken;                 // reported, by peer
    std::map<std::uint64_t, Held> departing;  // writers wait for these
    std::map<std::uint64_t, Fault> strikes;   // by message number
    base::Waiters changed;
  };

  Rank& rank(int id) { return ranks_[static_cast<std::size_t>(id)]; }
  Link& link(int from, int to);
  [[nodiscard]] bool unresponsive(int from, int to) const;
  // Bytes that have left arrive whatever became of their sender.
  [[nodiscard]] bool arrives(const Flight& flight) const;

  void leave(const Held& flight);
  void reach(const Held& flight);
  void receive(const Held& flight);
  void deliver(const Held& flight);
  void strike_within(const Held& flight);

  void apply(const Fault& fault);
  void lose(const Held& flight, std::uint64_t landed_bytes);
  void lose_from(Link& link, std::uint64_t id);
  // Flights whose last byte has not left the sender.
  void truncate(int from, int to);
  void lose_all(int from, int to);
  void remove(Link& link, const Held& flight);
  void end(int from, int to);
  void broke(int at, int peer, std::string why);
  [[nodiscard]] std::uint64_t arrived_bytes(const Flight& flight) const;
  void after(base::Time when, base::UniqueFunction<void(Fabric&)> function);

  base::Loop& loop_;
  LinkModel model_;
  std::uint64_t seed_;
  Payload payload_;
  Faults faults_;
  std::deque<Rank> ranks_;
  std::size_t connected_ = 0;
  std::uint64_t last_id_ = 0;
};

}  // namespace dlobd::transport::simulated
