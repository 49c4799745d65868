#include "transport/tcp/endpoint.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace dlobd::transport::tcp {

namespace {

// Below, a message is not worth several frames.
constexpr std::size_t kStripeBytes = 128 * 1024;
constexpr std::size_t kStripeAlignment = 4096;
// No peer can be so far ahead of a message that is still to come.
constexpr std::uint64_t kFarthest = 1U << 14;

base::Result<void> check_sequence(std::uint64_t sequence, std::uint64_t next) {
  if (sequence < next) {
    return base::fail(base::ErrorKind::corrupt_data,
                      fmt::format("a message that has arrived before: number {}", sequence));
  }
  if (sequence - next > kFarthest) {
    return base::fail(base::ErrorKind::corrupt_data,
                      fmt::format("a message has a number that is not to come: {}, the next is {}",
                                  sequence, next));
  }
  return {};
}

}  // namespace

base::Result<std::unique_ptr<TcpEndpoint>> TcpEndpoint::make(base::Loop& loop, int rank,
                                                             int world_size, Options options) {
  if (options.token.size() > kMaxTokenBytes) {
    return base::fail(base::ErrorKind::invalid_argument,
                      fmt::format("the job's token is too long: {} bytes of at most {}",
                                  options.token.size(), kMaxTokenBytes));
  }
  if (options.connections_per_peer < 1 || options.connections_per_peer > 64) {
    return base::fail(
        base::ErrorKind::invalid_argument,
        fmt::format("connections per peer must be 1 to 64: {}", options.connections_per_peer));
  }
  DLOBD_TRY(listener, Listener::open(loop, options));
  return std::make_unique<TcpEndpoint>(loop, rank, world_size, std::move(options),
                                       std::move(listener));
}

TcpEndpoint::TcpEndpoint(base::Loop& loop, int rank, int world_size, Options options,
                         std::shared_ptr<Listener> listener)
    : Endpoint(loop, rank, world_size),
      options_(std::move(options)),
      listener_(std::move(listener)),
      changed_(loop) {}

TcpEndpoint::~TcpEndpoint() {
  close_all();
}

void TcpEndpoint::register_memory(RegionId id, std::span<std::byte> memory) {
  CHECK(peers_.empty(), "region {} is registered after connect()", id);
  CHECK(regions_.emplace(id, memory).second, "region {} is registered twice", id);
  region_sizes_[id] = memory.size();
}

base::Result<std::vector<std::byte>> TcpEndpoint::descriptor() {
  Descriptor own;
  own.address = options_.address;
  own.port = listener_->port();
  own.regions = region_sizes_;
  return encode(own);
}

FrameHeader TcpEndpoint::header_of(FrameType type, int rank, Notification notification,
                                   Traffic traffic, std::size_t bytes) {
  CHECK(rank != this->rank() && rank >= 0 && rank < world_size(), "rank {} writes to rank {}",
        this->rank(), rank);
  CHECK(notification.kind < kMaxKinds, "kind {} of at most {}", notification.kind, kMaxKinds);
  FrameHeader header;
  header.type = type;
  header.traffic = traffic;
  header.notification = notification;
  header.bytes = header.total_bytes = bytes;
  header.sender_ready = loop().now();
  return header;
}

base::Task<base::Result<void>> TcpEndpoint::write(Write write) {
  if (error()) co_return base::fail(*error());
  CHECK(!peers_.empty(), "rank {} is not connected", rank());
  FrameHeader header = header_of(FrameType::write, write.peer, write.notification, write.traffic,
                                 write.bytes.size());
  auto fitting = check_write(peer(write.peer).descriptor.regions, write);
  DLOBD_CO_CHECK(fitting);
  header.region = write.region;
  header.offset_bytes = write.offset_bytes;
  const bool striped = peer(write.peer).connections.size() > 1 && write.bytes.size() > kStripeBytes;
  if (striped) {
    auto sent = co_await transmit_striped(write.peer, header, write.bytes);
    co_return sent;
  }
  auto sent = co_await transmit(write.peer, header, write.bytes);
  co_return sent;
}

base::Task<base::Result<void>> TcpEndpoint::send(Message message) {
  if (error()) co_return base::fail(*error());
  CHECK(!peers_.empty(), "rank {} is not connected", rank());
  CHECK(message.bytes.size() <= kMaxMessageBytes, "message of {} bytes", message.bytes.size());
  const FrameHeader header = header_of(FrameType::message, message.peer, message.notification,
                                       message.traffic, message.bytes.size());
  auto sent = co_await transmit(message.peer, header, message.bytes);
  co_return sent;
}

base::Task<base::Result<void>> TcpEndpoint::transmit(int rank, const FrameHeader& header,
                                                     std::span<const std::byte> bytes) {
  count_sent(header.traffic, bytes.size());
  Outgoing outgoing;
  FrameHeader numbered = header;
  numbered.sequence = peer(rank).next_sent++;
  encode(numbered, outgoing.header);
  outgoing.payload = bytes;
  const std::shared_ptr<Connection> connection = peer(rank).connections.front();
  if (!connection->start(outgoing)) co_await connection->finish(outgoing);
  if (outgoing.done) co_return base::Result<void>();
  lost(rank);
  auto failure = co_await verdict();
  co_return failure;
}

base::Task<base::Result<void>> TcpEndpoint::transmit_striped(int rank, const FrameHeader& header,
                                                             std::span<const std::byte> bytes) {
  count_sent(header.traffic, bytes.size());
  const std::vector<std::shared_ptr<Connection>> connections = peer(rank).connections;
  FrameHeader part = header;
  part.sequence = peer(rank).next_sent++;
  std::size_t stripe = (bytes.size() + connections.size() - 1) / connections.size();
  stripe = (stripe + kStripeAlignment - 1) / kStripeAlignment * kStripeAlignment;
  std::vector<Outgoing> outgoing(connections.size());
  std::size_t used = 0;
  for (std::size_t begin = 0; begin < bytes.size(); begin += stripe, ++used) {
    outgoing[used].payload = bytes.subspan(begin, std::min(stripe, bytes.size() - begin));
    part.bytes = outgoing[used].payload.size();
    part.offset_bytes = header.offset_bytes + begin;
    encode(part, outgoing[used].header);
  }
  for (std::size_t i = 0; i < used; ++i) connections[i]->start(outgoing[i]);
  bool done = true;
  for (std::size_t i = 0; i < used; ++i) {
    co_await connections[i]->finish(outgoing[i]);
    done = done && outgoing[i].done;
  }
  if (done) co_return base::Result<void>();
  lost(rank);
  auto failure = co_await verdict();
  co_return failure;
}

// A write has found its connection closed. If that was no break until now (the peer left in order),
// it is.
void TcpEndpoint::lost(int rank) {
  if (leaving_ || peer(rank).broken) return;
  peer(rank).broken = true;
  link_broke(rank,
             base::Error(base::ErrorKind::io_error,
                         fmt::format("the peer left before this message: rank {}", rank), rank));
}

base::Task<base::Result<void>> TcpEndpoint::verdict() {
  while (!error()) co_await changed_.wait();
  co_return base::fail(*error());
}

base::Result<std::span<std::byte>> TcpEndpoint::place(Connection& from, const FrameHeader& header) {
  DLOBD_TRY_VOID(checked, check_frame(header, region_sizes_));
  if (header.type == FrameType::bye) return std::span<std::byte>();
  DLOBD_TRY_VOID(numbered, check_sequence(header.sequence, peer(from.peer()).next_received));
  if (header.type == FrameType::message) {
    from.message.resize(header.bytes);
    return std::span<std::byte>(from.message);
  }
  return regions_.find(header.region)->second.subspan(header.offset_bytes, header.bytes);
}

base::Result<void> TcpEndpoint::complete(Connection& from, const FrameHeader& header) {
  if (header.type == FrameType::bye) {
    from.said_bye = true;
    changed_.wake_all();
    return {};
  }
  Peer& source = peer(from.peer());
  // Again: another connection may have brought it meanwhile.
  DLOBD_TRY_VOID(numbered, check_sequence(header.sequence, source.next_received));
  if (header.bytes == header.total_bytes && header.sequence == source.next_received &&
      !source.partial.contains(header.sequence)) {
    ++source.next_received;
    deliver(from.peer(), header, std::move(from.message));
  } else {
    Partial& partial = source.partial[header.sequence];
    DLOBD_TRY_VOID(added, partial.add(header, source.connections.size()));
    if (header.type == FrameType::message) partial.payload = std::move(from.message);
  }
  from.message.clear();
  while (!source.partial.empty()) {
    const auto first = source.partial.begin();
    Partial& partial = first->second;
    if (first->first != source.next_received || !partial.is_whole()) break;
    ++source.next_received;
    deliver(from.peer(), partial.header(), std::move(partial.payload));
    source.partial.erase(first);
  }
  return {};
}

void TcpEndpoint::deliver(int source, const FrameHeader& header, std::vector<std::byte> payload) {
  Arrival arrival;
  arrival.source = source;
  arrival.index = header.notification.index;
  arrival.bytes = header.total_bytes;
  arrival.sender_ready = header.sender_ready;
  arrival.payload = std::move(payload);
  arrived(header.notification.kind, std::move(arrival), header.traffic);
}

void TcpEndpoint::broke(Connection& connection, base::Error why, bool unsent) {
  changed_.wake_all();
  Peer& culprit = peer(connection.peer());
  if (leaving_ || culprit.broken || (connection.said_bye && !unsent)) return;
  culprit.broken = true;
  // One connection gone is the link gone: the others close too, so that nothing arrives after.
  const auto others = culprit.connections;
  for (const auto& other : others) {
    if (other != nullptr) other->close();
  }
  link_broke(connection.peer(), std::move(why));
}

base::Task<base::Result<void>> TcpEndpoint::say_bye(std::shared_ptr<Connection> connection) {
  Outgoing outgoing;
  FrameHeader header;
  header.type = FrameType::bye;
  encode(header, outgoing.header);
  if (!connection->start(outgoing)) co_await connection->finish(outgoing);
  co_return base::Result<void>();  // if it could not be said, nobody is there to hear it
}

std::vector<int> TcpEndpoint::without_bye() const {
  std::vector<int> ranks;
  for (int other = 0; other < static_cast<int>(peers_.size()); ++other) {
    for (const auto& connection : peers_[static_cast<std::size_t>(other)].connections) {
      if (connection == nullptr || connection->said_bye || !connection->is_open()) continue;
      ranks.push_back(other);
      break;
    }
  }
  return ranks;
}

base::Task<base::Result<void>> TcpEndpoint::shutdown() {
  if (error()) co_return base::fail(*error());
  leaving_ = true;
  // The frames of a connection go in order: each goodbye comes after all that was written.
  base::TaskGroup goodbyes(loop());
  for (const Peer& each : peers_) {
    for (const auto& connection : each.connections) {
      if (connection != nullptr) goodbyes.spawn(say_bye(connection));
    }
  }
  const std::function<bool()> all_said = [this] { return without_bye().empty(); };
  co_await wait_for(changed_, all_said, options_.peer_timeout);
  const std::vector<int> late = without_bye();
  if (!late.empty()) close_all();
  auto said = co_await goodbyes.join();
  if (error()) co_return base::fail(*error());
  close_all();
  if (!late.empty()) co_return base::fail(no_goodbye(late, options_.peer_timeout));
  co_return said;
}

void TcpEndpoint::failed() {
  close_all();
  changed_.wake_all();
}

void TcpEndpoint::close_all() {
  listener_->close();
  std::error_code ignored;
  for (const auto& socket : dialling_) socket->close(ignored);
  for (const Peer& each : peers_) {
    for (const auto& connection : each.connections) {
      if (connection != nullptr) connection->close();
    }
  }
}

}  // namespace dlobd::transport::tcp
