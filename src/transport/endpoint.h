// One rank's view of the group: bytes between two ranks.
//
//   life      make it; register_memory() for each region; exchange descriptor() blobs with all
//             ranks; connect(blobs); then write / send / next; shutdown() at an orderly end, fail()
//             otherwise.
//   write     one-sided: lands in the peer's registered region, then the peer sees the
//             notification.
//   send      two-sided, small (at most kMaxMessageBytes): the payload comes with its notification.
//   next      the next arrival of a kind. Between one pair of ranks arrivals of a kind keep their
//             order.
//
// A message is one contiguous transfer between two ranks, however it is started or fragmented; an
// empty write sends a message of zero bytes. There is no one-sided read: a pull is a request and a
// write.
//
// Failure: when a link to a peer breaks, the handler of on_link_broken() hears of it (who decides
// what that means is above us); without a handler the endpoint fails itself with peer_lost. After
// fail() every pending and later call returns that error. Registered memory must outlive the
// endpoint.
//
// Threads: belongs to the loop's thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/result.h"
#include "base/waiters.h"
#include "transport/message.h"

namespace dlobd::transport {

// Constructors, not aggregates: g++ 12 miscompiles aggregate temporaries inside co_await.
struct Write {
  int peer;
  RegionId region;             // of the peer
  std::uint64_t offset_bytes;  // within that region
  std::span<const std::byte> bytes;
  Notification notification;
  Traffic traffic;

  Write(int peer, RegionId region, std::uint64_t offset_bytes, std::span<const std::byte> bytes,
        Notification notification, Traffic traffic = Traffic::data)
      : peer(peer),
        region(region),
        offset_bytes(offset_bytes),
        bytes(bytes),
        notification(notification),
        traffic(traffic) {}
};

struct Message {
  int peer;
  Notification notification;
  std::span<const std::byte> bytes;
  Traffic traffic;

  Message(int peer, Notification notification, std::span<const std::byte> bytes,
          Traffic traffic = Traffic::control)
      : peer(peer), notification(notification), bytes(bytes), traffic(traffic) {}
};

struct Arrival {
  int source = 0;
  std::uint32_t index = 0;
  std::uint64_t bytes = 0;         // of the message
  base::Time sender_ready{0};      // the sender's clock when it handed the message over
  std::vector<std::byte> payload;  // two-sided messages only
};

struct Count {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const Count&, const Count&) = default;
};

struct Counters {
  std::array<Count, kTrafficClasses> sent{};
  std::array<Count, kTrafficClasses> received{};
  [[nodiscard]] const Count& sent_of(Traffic traffic) const {
    return sent[static_cast<std::size_t>(traffic)];
  }
  [[nodiscard]] const Count& received_of(Traffic traffic) const {
    return received[static_cast<std::size_t>(traffic)];
  }
};

class Endpoint {
 public:
  Endpoint(base::Loop& loop, int rank, int world_size);
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;
  virtual ~Endpoint() = default;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int world_size() const { return world_size_; }
  base::Loop& loop() { return loop_; }

  // Before descriptor(). Ids are small and unique.
  virtual void register_memory(RegionId id, std::span<std::byte> memory) = 0;
  // Address and regions, for the peers.
  virtual base::Result<std::vector<std::byte>> descriptor() = 0;
  // descriptors[r] is rank r's. Returns when every peer is reachable; the error of a peer that is
  // not carries its rank, of several the first one's.
  virtual base::Task<base::Result<void>> connect(
      const std::vector<std::vector<std::byte>>& descriptors) = 0;
  // Returns when `bytes` may be changed again. Several writes may be in progress at once; those to
  // one peer arrive in the order of the calls. peer != rank().
  virtual base::Task<base::Result<void>> write(Write write) = 0;
  virtual base::Task<base::Result<void>> send(Message message) = 0;
  // Closes in order: all that was written has been handed over; later ends of links are no failure.
  // A peer that does not say goodbye is one whose link breaks: peer_lost, with its rank.
  virtual base::Task<base::Result<void>> shutdown() = 0;

  base::Task<base::Result<Arrival>> next(Kind kind);
  // The first error stays. Links are closed at once.
  void fail(base::Error error);
  [[nodiscard]] const std::optional<base::Error>& error() const { return error_; }

  using LinkBroken = std::function<void(int peer, const base::Error& why)>;
  void on_link_broken(LinkBroken handler) { link_broken_ = std::move(handler); }

  [[nodiscard]] const Counters& counters() const { return counters_; }

 protected:
  // For implementations.
  void arrived(Kind kind, Arrival arrival, Traffic traffic);
  void count_sent(Traffic traffic, std::uint64_t bytes);
  void link_broke(int peer, base::Error why);
  // connect() has waited so long for these ranks, at least one.
  [[nodiscard]] static base::Error not_connected(const std::vector<int>& ranks,
                                                 base::Duration waited);
  // Until `done`, which is looked at whenever `changed` wakes, or for so long in which this process
  // ran: see base/lookout.h.
  base::Task<void> wait_for(base::Waiters& changed, const std::function<bool()>& done,
                            base::Duration longest);
  // shutdown() has waited so long: breaks the link to the first of these ranks.
  base::Error no_goodbye(const std::vector<int>& ranks, base::Duration waited);
  virtual void failed() = 0;  // close links, wake writers
  // next() finds nothing: what comes within a microsecond or two may be taken before it waits.
  virtual void glance() {}

 private:
  base::Loop& loop_;
  int rank_;
  int world_size_;
  std::deque<base::Queue<Arrival>> arrivals_;  // by kind
  std::optional<base::Error> error_;
  LinkBroken link_broken_;
  Counters counters_;
};

}  // namespace dlobd::transport
