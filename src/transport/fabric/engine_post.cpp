// What goes out of an endpoint over libfabric.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "transport/fabric/engine.h"

namespace dlobd::transport::fabric {

namespace {

// The last bytes of a write, which alone carry a mark where marks_tail_.
constexpr std::size_t kTailBytes = 64;

}  // namespace

void Engine::enqueue(Peer& to, Outgoing& outgoing) {
  const base::Time now = outgoing.header.sender_ready;
  if (to.idle()) to.progress = now;
  if (to.head == nullptr) {
    to.head = to.tail = &outgoing;
    pump(to, now);
    if (to.head != nullptr && to.credits == 0) ++statistics_.waits_for_credit;
  } else {
    to.tail->next = &outgoing;
    to.tail = &outgoing;
  }
}

void Engine::control(Peer& to, PacketType type, std::vector<std::byte> payload) {
  const base::Time now = loop().now();
  if (to.idle()) to.progress = now;
  ControlPacket packet;
  packet.header.type = type;
  packet.header.bytes = payload.size();
  packet.header.sequence = to.next_sent;
  packet.payload = std::move(payload);
  to.control.push_back(std::move(packet));
  pump(to, now);
  progress_->kick(now);
}

// Posts what credit and provider allow.
void Engine::pump(Peer& to, base::Time now) {
  if (to.blocked || closed_) return;
  while (!to.broken && !to.control.empty()) {
    const ControlPacket& packet = to.control.front();
    // A goodbye is known to be out: the endpoint may be closed after it.
    const bool completion = packet.header.type == PacketType::bye;
    if (post_packet(to, packet.header, packet.payload, completion) != Posted::yes) return;
    to.control.pop_front();
  }
  while (!to.broken && to.head != nullptr) {
    Outgoing& outgoing = *to.head;
    const std::uint32_t price = needs_credit(outgoing) ? 1 : 0;
    if (to.credits < price) return;
    if (must_wait(to, outgoing)) {
      held_back_ = true;
      return;
    }
    if (post_step(to, outgoing) != Posted::yes) return;
    to.credits -= price;
    to.progress = now;
    if (++outgoing.posted < outgoing.steps) continue;
    to.head = outgoing.next;
    if (to.head == nullptr) to.tail = nullptr;
    if (outgoing.pending == 0) complete(outgoing);
  }
}

void Engine::block(Peer& to) {
  if (to.blocked) return;
  to.blocked = true;
  blocked_.push_back(to.rank);
}

std::size_t Engine::retry_blocked() {
  const std::vector<int> again = std::exchange(blocked_, {});
  std::size_t moved = 0;
  for (const int rank : again) {
    Peer& to = peer(rank);
    to.blocked = false;
    pump(to, loop().now());
    if (closed_) return moved;
    if (!to.blocked) ++moved;
  }
  return moved;
}

Engine::Posted Engine::post_step(Peer& to, Outgoing& outgoing) {
  if (outgoing.header.type == PacketType::envelope) {
    if (outgoing.posted == 0) return post_packet(to, outgoing.header, {}, false);
    return post_fragment(to, outgoing, outgoing.posted - 1);
  }
  Header header = outgoing.header;
  header.part = outgoing.posted;
  const std::size_t begin = header.part * kPacketPayload;
  const std::size_t size = std::min(kPacketPayload, outgoing.bytes.size() - begin);
  return post_packet(to, header, outgoing.bytes.subspan(begin, size), false);
}

// The bytes of a write's operation `number`, and whether it carries a mark.
Engine::Fragment Engine::fragment_of(const Outgoing& outgoing, std::uint32_t number) const {
  const std::size_t all = outgoing.bytes.size();
  const std::size_t body = marks_tail_ ? all - std::min(all, kTailBytes) : all;
  const std::size_t begin = std::min(body, number * fragment_bytes_);
  if (begin == body) return {outgoing.bytes.subspan(body), body, true};
  return {outgoing.bytes.subspan(begin, std::min(fragment_bytes_, body - begin)), begin,
          !marks_tail_};
}

void Engine::divide(Outgoing& outgoing) const {
  const std::size_t all = outgoing.bytes.size();
  const std::size_t body = marks_tail_ ? all - std::min(all, kTailBytes) : all;
  const auto fragments = static_cast<std::uint32_t>((body + fragment_bytes_ - 1) / fragment_bytes_);
  const bool tail = marks_tail_ && all > 0;
  outgoing.header.parts = tail ? 1 : fragments;
  outgoing.steps = 1 + fragments + (tail ? 1 : 0);
}

bool Engine::needs_credit(const Outgoing& outgoing) const {
  return outgoing.header.type == PacketType::message || outgoing.posted == 0 ||
         fragment_of(outgoing, outgoing.posted - 1).marked;
}

// A write's next part is not to be posted before an earlier one is through.
bool Engine::must_wait(const Peer& to, const Outgoing& outgoing) const {
  return to.writes >= most_writes_ && outgoing.header.type == PacketType::envelope &&
         outgoing.bytes.size() > injected_write_bytes_;
}

Engine::Posted Engine::post_fragment(Peer& to, Outgoing& outgoing, std::uint32_t number) {
  const Fragment fragment = fragment_of(outgoing, number);
  const std::span<const std::byte> bytes = fragment.bytes;
  Mark mark;
  mark.source = rank();
  mark.sequence = outgoing.header.sequence;
  mark.notification = outgoing.header.notification;
  const std::uint64_t data = encode(mark, mark_width_);
  const std::uint64_t address = outgoing.remote_address + fragment.offset_bytes;
  fid_ep* endpoint = adapter_->endpoint();
  if (fragment.marked && !marks_tail_ && bytes.size() <= injected_write_bytes_) {
    const Posted done =
        posted(to, call([&] {
                 return fi_inject_writedata(endpoint, bytes.data(), bytes.size(), data, to.address,
                                            address, outgoing.remote_key);
               }));
    if (done != Posted::yes) return done;
    ++statistics_.fragments;
    statistics_.injected_bytes += bytes.size();
    return done;
  }
  if (free_writes_.empty()) {
    block(to);
    return Posted::again;
  }
  Operation& write = *free_writes_.back();
  const ssize_t code = call([&] {
    return fragment.marked
               ? fi_writedata(endpoint, bytes.data(), bytes.size(), outgoing.local, data,
                              to.address, address, outgoing.remote_key, &write.context)
               : fi_write(endpoint, bytes.data(), bytes.size(), outgoing.local, to.address, address,
                          outgoing.remote_key, &write.context);
  });
  const Posted done = posted(to, code);
  if (done != Posted::yes) return done;
  free_writes_.pop_back();
  write.peer = to.rank;
  write.owner = &outgoing;
  ++outgoing.pending;
  ++to.outstanding;
  ++to.writes;
  ++statistics_.fragments;
  return done;
}

Engine::Posted Engine::post_packet(Peer& to, Header header, std::span<const std::byte> payload,
                                   bool completion) {
  const std::size_t size = kHeaderBytes + payload.size();
  CHECK(size <= kPacketBytes, "packet of {} bytes", size);
  header.source = static_cast<std::uint16_t>(rank());
  header.key = to.key_there;
  header.credits = static_cast<std::uint16_t>(std::min<std::uint32_t>(to.owed, 0xffff));
  Operation* slot = nullptr;
  std::span<std::byte> buffer = scratch_;
  if (completion || size > inject_bytes_) {
    if (free_packets_.empty()) {
      block(to);
      return Posted::again;
    }
    slot = free_packets_.back();
    buffer = slot->buffer;
  }
  encode(header, buffer.first<kHeaderBytes>());
  if (!payload.empty()) std::memcpy(buffer.data() + kHeaderBytes, payload.data(), payload.size());
  const Posted done = posted(
      to, call([&] {
        return slot == nullptr ? fi_inject(adapter_->endpoint(), buffer.data(), size, to.address)
                               : fi_send(adapter_->endpoint(), buffer.data(), size, slab_local_,
                                         to.address, &slot->context);
      }));
  if (done != Posted::yes) return done;
  to.owed -= header.credits;
  if (slot != nullptr) {
    free_packets_.pop_back();
    slot->peer = to.rank;
    ++to.outstanding;
  }
  if (header.type == PacketType::credits) ++statistics_.credits_sent;
  return done;
}

Engine::Posted Engine::posted(Peer& to, ssize_t code) {
  if (code == 0) return Posted::yes;
  if (code == -FI_EAGAIN) {
    block(to);
    return Posted::again;
  }
  break_link(to, base::ErrorKind::io_error, "posting to a peer failed: " + reason(code));
  return Posted::broken;
}

void Engine::complete(Outgoing& outgoing) {
  outgoing.done = true;
  ++woken_;
  if (outgoing.resume) loop().post(std::move(outgoing.resume));
}

// A buffer that the peer has used is free again.
void Engine::owe(Peer& to) {
  ++to.owed;
  // With half of them in each, a peer has at most two such packets under way.
  if (to.owed < (grant_ + 1) / 2 || !to.connected || to.broken || to.said_bye()) return;
  control(to, PacketType::credits, {});
}

}  // namespace dlobd::transport::fabric
