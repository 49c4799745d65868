// What the completion queue tells an endpoint over libfabric.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "transport/fabric/engine.h"

namespace dlobd::transport::fabric {

namespace {

constexpr std::size_t kEvents = 16;
// So long the rest of a message that has come in part, or an answer, is looked for before others
// get a turn. A poll may be a system call: this is time, not a number of them.
constexpr base::Duration kGlance = std::chrono::nanoseconds(1500);
constexpr base::Duration kLongestBetweenTurns = std::chrono::microseconds(50);
// No peer can be so far ahead of a message that is still to come.
constexpr std::uint32_t kFarthest = 1U << 14;

template <class Operations>
bool is_among(const Operations& operations, const void* context) {
  return !operations.empty() && context >= &operations.front() && context <= &operations.back();
}

}  // namespace

std::size_t Engine::poll() {
  if (closed_ || polling_) return 0;
  polling_ = true;
  const std::uint64_t woken = woken_;
  std::size_t found = read_events();
  // What the peer took while this one took its bytes makes room: before anybody adds them up.
  if (found > 0 && std::exchange(held_back_, false) && !closed_) found += read_events();
  if (found > 0 && in_part_) {
    const base::Time end = polled_ + kGlance;
    while (in_part_ && woken_ == woken && !closed_ && loop().now() < end) found += read_events();
  }
  if (!closed_ && !unposted_.empty()) {
    for (Operation* receive : std::exchange(unposted_, {})) post_receive(*receive);
  }
  if (!closed_ && !blocked_.empty()) found += retry_blocked();
  polling_ = false;
  return found;
}

// A short answer is here before the loop has turned once. But the loop must turn now and then: whom
// answers reach without a pause would send no sign of life.
void Engine::glance() {
  if (!progress_ || !progress_->running()) return;
  const std::uint64_t woken = woken_;
  const base::Time now = loop().now();
  if (now - progress_->turned() > kLongestBetweenTurns) return;
  std::uint64_t empty = 0;
  do {
    if (poll() > 0) continue;
    ++empty;
    Progress::pause();
  } while (woken_ == woken && !closed_ && loop().now() < now + kGlance);
  progress_->count_empty(empty);
}

std::size_t Engine::read_events() {
  std::array<fi_cq_data_entry, kEvents> events;
  const ssize_t got =
      call([&] { return fi_cq_read(adapter_->queue(), events.data(), events.size()); });
  std::size_t found = 0;
  if (got > 0) {
    polled_ = loop().now();
    in_part_ = false;
    for (; found < static_cast<std::size_t>(got) && !closed_; ++found) on_event(events[found]);
  } else if (got == -FI_EAVAIL) {
    on_error();
    found = 1;
  } else if (got != -FI_EAGAIN && got != 0) {
    fail(base::Error(base::ErrorKind::io_error,
                     fmt::format("reading an RDMA completion queue failed: provider {}: {}",
                                 opened().provider, reason(got))));
  }
  return found;
}

Operation* Engine::operation_of(void* context) {
  // An error may come without a context, or with one of the provider's own.
  if (is_among(receives_, context) || is_among(writes_, context) || is_among(packets_, context)) {
    return static_cast<Operation*>(context);
  }
  return nullptr;
}

void Engine::on_event(const fi_cq_data_entry& event) {
  Operation* operation = operation_of(event.op_context);
  if ((event.flags & FI_REMOTE_CQ_DATA) != 0) {
    const Mark mark = decode_mark(event.data, mark_width_);
    const bool known =
        static_cast<std::size_t>(mark.source) < peers_.size() && mark.source != rank();
    if (operation != nullptr && operation->type == Operation::Type::receive) {
      // It took a buffer, which is free again.
      operation->peer = known ? mark.source : -1;
      post_receive(*operation);
    } else if (known) {
      owe(peer(mark.source));
    }
    if (known && !closed_) on_mark(mark);
    return;
  }
  if (operation == nullptr) return;
  switch (operation->type) {
    case Operation::Type::receive: on_receive(*operation, event.len); break;
    case Operation::Type::write: on_written(*operation); break;
    case Operation::Type::packet: {
      Peer& to = peer(operation->peer);
      free_packets_.push_back(operation);
      --to.outstanding;
      to.progress = polled_;
      if (leaving_) changed_.wake_all();
      break;
    }
  }
}

void Engine::on_written(Operation& write) {
  Peer& to = peer(write.peer);
  --to.outstanding;
  --to.writes;
  to.progress = polled_;
  Outgoing* owner = std::exchange(write.owner, nullptr);
  free_writes_.push_back(&write);
  if (owner != nullptr && --owner->pending == 0 && owner->posted == owner->steps) complete(*owner);
  if (to.head != nullptr && !to.broken) pump(to, polled_);  // it may have waited for this one
  if (leaving_) changed_.wake_all();
}

void Engine::on_error() {
  fi_cq_err_entry wrong{};
  if (fi_cq_readerr(adapter_->queue(), &wrong, 0) <= 0) return;
  Operation* operation = operation_of(wrong.op_context);
  if (operation != nullptr && operation->type == Operation::Type::receive) {
    operation->peer = -1;
    if (wrong.err != FI_ECANCELED) post_receive(*operation);  // a stranger's, too large
    return;
  }
  const std::string why = reason(wrong.err);
  int culprit = -1;
  if (operation != nullptr) {
    culprit = operation->peer;
    Peer& to = peer(culprit);
    --to.outstanding;
    if (operation->type == Operation::Type::packet) {
      free_packets_.push_back(operation);
    } else {
      --to.writes;
      // Its writer is abandoned with the link; until then the operation counts as its.
      if (operation->owner != nullptr) --operation->owner->pending;
    }
  } else {
    // The provider does not say whose (of shm: a read from the memory of who has died). It may be
    // one's whose link is broken already.
    if (explained()) return;
    culprit = only_suspect();
  }
  if (culprit < 0) {
    fail_unless_explained(why);
    return;
  }
  Peer& with = peer(culprit);
  // Its end after its goodbye is no failure, unless something was still on its way to it.
  if (operation == nullptr && with.said_bye() && with.idle()) return;
  break_link(with, base::ErrorKind::io_error, "bytes posted to a peer failed: " + why);
  if (operation != nullptr && operation->type == Operation::Type::write) {
    operation->owner = nullptr;
    if (!closed_) free_writes_.push_back(operation);
  }
}

bool Engine::explained() const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [](const Peer& each) { return each.connected && each.broken; });
}

int Engine::only_suspect() const {
  int found = -1;
  for (const Peer& each : peers_) {
    if (!each.connected) continue;
    if (found != -1) return -1;
    found = each.rank;
  }
  return found;
}

// Who has died or was stopped, with a queue locked, is heard of soon: see below.
ssize_t Engine::got_stuck() {
  stuck_ = true;
  if (explained()) return -FI_EAGAIN;
  const std::string why = "a call never ended: a peer has died or was stopped within its own";
  if (const int culprit = only_suspect(); culprit >= 0) {
    break_link(peer(culprit), base::ErrorKind::io_error, why);
  } else {
    fail_unless_explained(why);
  }
  return -FI_EAGAIN;
}

// Something failed with one of several peers. Who has died is soon known by its heartbeat; blaming
// oneself first would hide it.
void Engine::fail_unless_explained(const std::string& why) {
  if (leaving_) return;
  const base::Error error(
      base::ErrorKind::io_error,
      fmt::format("an RDMA operation failed, the provider does not say to whom: "
                  "provider {}: {}",
                  opened().provider, why));
  loop().call_after(2 * options_.peer_timeout, [this, here = std::weak_ptr<bool>(here_), error] {
    if (!here.expired() && !leaving_) fail(error);
  });
}

void Engine::post_receive(Operation& receive) {
  if (closed_) return;
  const ssize_t code = call([&] {
    return fi_recv(adapter_->endpoint(), receive.buffer.data(), receive.buffer.size(), slab_local_,
                   FI_ADDR_UNSPEC, &receive.context);
  });
  if (code == 0) {
    const int used_by = std::exchange(receive.peer, -1);
    if (used_by >= 0) owe(peer(used_by));
  } else if (code == -FI_EAGAIN) {
    unposted_.push_back(&receive);
  } else {
    fail(base::Error(base::ErrorKind::io_error,
                     fmt::format("an RDMA provider takes no receive buffer: provider {}: {}",
                                 opened().provider, reason(code))));
  }
}

void Engine::on_receive(Operation& receive, std::size_t bytes) {
  receive.peer = -1;
  const auto packet =
      std::span<const std::byte>(receive.buffer).first(std::min(bytes, receive.buffer.size()));
  auto header = parse_header(packet);
  if (!header) {
    ++statistics_.strangers;
  } else if (header->type == PacketType::hello || header->type == PacketType::answer) {
    on_hello(*header, packet.subspan(kHeaderBytes));
  } else if (header->source >= peers_.size() || header->source == rank() ||
             header->key != peer(header->source).key_here) {
    ++statistics_.strangers;
  } else {
    Peer& from = peer(header->source);
    const bool with_credit =
        header->type == PacketType::envelope || header->type == PacketType::message;
    if (with_credit) receive.peer = from.rank;
    on_packet(from, *header, packet.subspan(kHeaderBytes));
  }
  post_receive(receive);
}

void Engine::on_packet(Peer& from, const Header& header, std::span<const std::byte> payload) {
  if (from.broken) return;
  if (header.credits > 0) {
    from.credits += header.credits;
    if (from.head != nullptr) from.progress = polled_;
    pump(from, polled_);
    if (closed_ || from.broken) return;
  }
  switch (header.type) {
    case PacketType::gone: {
      const std::string why(reinterpret_cast<const char*>(payload.data()), payload.size());
      break_link(from, base::ErrorKind::peer_lost, "the peer has failed (" + why + ")");
      return;
    }
    case PacketType::bye:
      from.bye = header.sequence;
      changed_.wake_all();
      return;
    case PacketType::envelope:
    case PacketType::message: break;
    default: return;
  }
  Partial* partial = partial_of(from, header.sequence, header.sequence - from.next_received);
  if (partial == nullptr) return;
  if (!partial->header) partial->header = header;
  if (header.type == PacketType::message) {
    ++partial->parts;
    partial->payload.resize(header.bytes);
    if (!payload.empty()) {
      std::memcpy(partial->payload.data() + header.part * kPacketPayload, payload.data(),
                  payload.size());
    }
  }
  settle(from);
}

void Engine::on_mark(const Mark& mark) {
  Peer& from = peer(mark.source);
  if (from.broken) return;
  const std::uint32_t distance = ahead(mark, from.next_received, mark_width_);
  Partial* partial = partial_of(from, from.next_received + distance, distance);
  if (partial == nullptr) return;
  ++partial->parts;
  if (mark_width_ == MarkWidth::wide) partial->marked = mark.notification;
  settle(from);
}

Partial* Engine::partial_of(Peer& from, std::uint32_t sequence, std::uint32_t distance) {
  if (distance > kFarthest) {
    break_link(from, base::ErrorKind::corrupt_data,
               fmt::format("a message has a number that is not to come: {}, the next is {}",
                           sequence, from.next_received));
    return nullptr;
  }
  while (from.partial.size() <= distance) from.partial.emplace_back();
  return &from.partial[distance];
}

void Engine::settle(Peer& from) {
  while (!from.partial.empty() && !closed_) {
    Partial& first = from.partial.front();
    if (!first.header || first.parts < first.header->parts) {
      in_part_ = true;
      break;
    }
    const Notification& named = first.header->notification;
    if (first.parts > first.header->parts ||
        (first.marked &&
         (first.marked->kind != named.kind || first.marked->index != named.index))) {
      break_link(
          from, base::ErrorKind::corrupt_data,
          fmt::format("a message and its completion data differ: number {}", from.next_received));
      return;
    }
    deliver(from, first);
    from.partial.pop_front();
    ++from.next_received;
  }
  if (from.bye) changed_.wake_all();
}

void Engine::deliver(Peer& from, Partial& partial) {
  const Header& header = *partial.header;
  Arrival arrival;
  arrival.source = from.rank;
  arrival.index = header.notification.index;
  arrival.bytes = header.bytes;
  arrival.sender_ready = header.sender_ready;
  arrival.payload = std::move(partial.payload);
  statistics_.copied_bytes += arrival.payload.size();
  ++woken_;
  arrived(header.notification.kind, std::move(arrival), header.traffic);
}

}  // namespace dlobd::transport::fabric
