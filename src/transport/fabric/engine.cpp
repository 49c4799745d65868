#include "transport/fabric/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "transport/fabric/providers.h"

namespace dlobd::transport::fabric {

namespace {

// Packets without credit that a peer may have under way: two of credits, a hello, a goodbye.
constexpr std::uint32_t kReserve = 4;
constexpr std::uint32_t kMostCredits = 64;
constexpr std::size_t kMostWrites = 512;  // posted and not completed
constexpr std::size_t kPacketSlots = 64;
// Of a processor's time. An honest call may copy all that others have posted.
constexpr base::Duration kLongestHonestCall = std::chrono::milliseconds(100);
constexpr base::Duration kLongestCall = std::chrono::seconds(1);
// So little is copied by the provider rather than waited for.
constexpr std::size_t kInjectBytes = 256;

// shm copies what it injects and what it does not, up to this size: injecting saves a completion.
// What is larger the target copies, and keeps its queue locked meanwhile: who posts to it waits.
// Two ranks that write to each other would take turns, were it not for few writes at a time.
constexpr std::size_t kSharedFragment = 1U << 20;
constexpr std::uint32_t kSharedWrites = 4;

}  // namespace

base::Result<std::unique_ptr<FabricEndpoint>> FabricEndpoint::make(base::Loop& loop, int rank,
                                                                   int world_size,
                                                                   Options options) {
  CHECK(!loop.is_virtual(), "RDMA in virtual time: rank {}", rank);
  if (options.token.size() > kMaxTokenBytes) {
    return base::fail(base::ErrorKind::invalid_argument,
                      fmt::format("the job's token is too long: {} bytes of at most {}",
                                  options.token.size(), kMaxTokenBytes));
  }
  if (world_size > kMaxRanks) {
    return base::fail(
        base::ErrorKind::invalid_argument,
        fmt::format("too many ranks for RDMA: {} of at most {}", world_size, kMaxRanks));
  }
  DLOBD_TRY(provider, choose(options.provider));
  options.provider = provider;
  DLOBD_TRY(adapter, Adapter::open(options));
  auto engine =
      std::make_unique<Engine>(loop, rank, world_size, std::move(options), std::move(adapter));
  DLOBD_TRY_VOID(opened, engine->open());
  return engine;
}

Engine::Engine(base::Loop& loop, int rank, int world_size, Options options,
               std::unique_ptr<Adapter> adapter)
    : FabricEndpoint(loop, rank, world_size),
      options_(std::move(options)),
      adapter_(std::move(adapter)),
      memory_(*adapter_, options_.pin_memory),
      escape_(std::clamp(options_.peer_timeout / 4, kLongestHonestCall, kLongestCall)),
      changed_(loop),
      lookout_(options_.peer_timeout) {}

Engine::~Engine() {
  close();
  if (!stuck_ && drain()) {
    adapter_->close_endpoint();
  } else {
    Adapter::abandon(std::move(adapter_));
  }
}

base::Result<void> Engine::open() {
  const fi_info& info = adapter_->info();
  inject_bytes_ = info.tx_attr->inject_size;
  fragment_bytes_ = std::min(options_.fragment_bytes, info.ep_attr->max_msg_size);
  if (fragment_bytes_ == 0) fragment_bytes_ = info.ep_attr->max_msg_size;
  marks_tail_ = opened().provider == "tcp;ofi_rxm";
  const bool shared = opened().provider == "shm";
  injected_write_bytes_ = shared ? inject_bytes_ : std::min(inject_bytes_, kInjectBytes);
  if (shared) fragment_bytes_ = std::min(fragment_bytes_, kSharedFragment);
  most_writes_ = shared ? kSharedWrites : std::numeric_limits<std::uint32_t>::max();
  mark_width_ = info.domain_attr->cq_data_size >= 8 ? MarkWidth::wide : MarkWidth::narrow;
  const auto others = static_cast<std::size_t>(world_size() - 1);
  if (others > 0) {
    const std::size_t each = info.rx_attr->size / others;
    const std::size_t room = each > kReserve ? each - kReserve : 0;
    const std::size_t wanted =
        options_.credits_per_peer == 0 ? kMostCredits : options_.credits_per_peer;
    if (options_.credits_per_peer == 0 ? room < 2 : room < wanted) {
      return base::fail(
          base::ErrorKind::unavailable,
          fmt::format("an RDMA provider has too few receive buffers: provider {}, {} for {} peers "
                      "of {} credits",
                      opened().provider, info.rx_attr->size, others, wanted));
    }
    grant_ = static_cast<std::uint32_t>(std::min(wanted, room));
  } else {
    grant_ = 1;
  }
  receives_.resize(others * (grant_ + kReserve));
  packets_.resize(kPacketSlots);
  writes_.resize(std::clamp<std::size_t>(info.tx_attr->size, 16, kMostWrites));
  DLOBD_TRY_VOID(enabled,
                 adapter_->enable(receives_.size() + packets_.size() + writes_.size() + 64));
  DLOBD_TRY_VOID(opened, open_buffers());
  progress_ =
      std::make_shared<Progress>(loop(), options_.spin, options_.nap, adapter_->wait_descriptor());
  return {};
}

base::Result<void> Engine::open_buffers() {
  slab_.resize((receives_.size() + packets_.size()) * kPacketBytes);
  if (adapter_->has_mr_mode(FI_MR_LOCAL)) {
    DLOBD_TRY(registered, memory_.add(slab_));
    slab_local_ = registered->local;
  }
  std::size_t used = 0;
  const auto buffer = [this, &used] {
    return std::span(slab_).subspan(kPacketBytes * used++, kPacketBytes);
  };
  for (Operation& packet : packets_) {
    packet.type = Operation::Type::packet;
    packet.buffer = buffer();
    free_packets_.push_back(&packet);
  }
  for (Operation& write : writes_) {
    write.type = Operation::Type::write;
    free_writes_.push_back(&write);
  }
  for (Operation& receive : receives_) {
    receive.buffer = buffer();
    post_receive(receive);
  }
  return {};
}

void Engine::register_memory(RegionId id, std::span<std::byte> memory) {
  CHECK(peers_.empty(), "region {} is registered after connect()", id);
  auto registered = memory_.add(memory);
  if (!registered) {
    if (!refused_)
      refused_ = registered.error().while_doing(fmt::format("registering region {}", id));
    return;
  }
  CHECK(regions_.emplace(id, *registered).second, "region {} is registered twice", id);
}

base::Result<std::vector<std::byte>> Engine::descriptor() {
  if (refused_) return base::fail(*refused_);
  Description own;
  own.provider = opened().provider;
  DLOBD_TRY(address, adapter_->address());
  own.address = address;
  own.credits = grant_;
  own.mark_width = mark_width_;
  for (const auto& [id, registration] : regions_) {
    RemoteRegion region;
    region.bytes = registration->bytes.size();
    region.address = registration->address;
    region.key = registration->key;
    own.regions.emplace(id, region);
  }
  return encode(own);
}

Header Engine::header_of(PacketType type, int rank, Notification notification, Traffic traffic,
                         std::size_t bytes) {
  CHECK(rank != this->rank() && rank >= 0 && rank < world_size(), "rank {} writes to rank {}",
        this->rank(), rank);
  CHECK(notification.kind < kMaxKinds, "kind {} of at most {}", notification.kind, kMaxKinds);
  CHECK(!peers_.empty(), "rank {} is not connected", this->rank());
  Header header;
  header.type = type;
  header.traffic = traffic;
  header.notification = notification;
  header.bytes = bytes;
  header.sender_ready = loop().now();
  return header;
}

base::Task<base::Result<void>> Engine::write(Write write) {
  if (error()) co_return base::fail(*error());
  Outgoing outgoing;
  outgoing.header = header_of(PacketType::envelope, write.peer, write.notification, write.traffic,
                              write.bytes.size());
  Peer& to = peer(write.peer);
  auto fitting = check_write(to.sizes, write);
  DLOBD_CO_CHECK(fitting);
  const RemoteRegion& region = to.there.regions.find(write.region)->second;
  outgoing.bytes = write.bytes;
  outgoing.remote_address = region.address + write.offset_bytes;
  outgoing.remote_key = region.key;
  divide(outgoing);
  Registration* source = nullptr;
  if (adapter_->has_mr_mode(FI_MR_LOCAL) && !write.bytes.empty()) {
    auto borrowed = memory_.borrow(write.bytes);
    DLOBD_CO_CHECK(borrowed);
    source = *borrowed;
    outgoing.local = source->local;
  }
  count_sent(write.traffic, write.bytes.size());
  base::Result<void> sent;
  if (!start(to, outgoing)) sent = co_await finish(to, outgoing);
  if (source != nullptr) memory_.give_back(source);
  co_return sent;
}

base::Task<base::Result<void>> Engine::send(Message message) {
  if (error()) co_return base::fail(*error());
  CHECK(message.bytes.size() <= kMaxMessageBytes, "message of {} bytes", message.bytes.size());
  Outgoing outgoing;
  outgoing.header = header_of(PacketType::message, message.peer, message.notification,
                              message.traffic, message.bytes.size());
  outgoing.bytes = message.bytes;
  outgoing.header.parts = outgoing.steps = packets_of(message.bytes.size());
  count_sent(message.traffic, message.bytes.size());
  statistics_.copied_bytes += message.bytes.size();
  Peer& to = peer(message.peer);
  base::Result<void> sent;
  if (!start(to, outgoing)) sent = co_await finish(to, outgoing);
  co_return sent;
}

bool Engine::start(Peer& to, Outgoing& outgoing) {
  outgoing.header.sequence = to.next_sent++;
  if (to.broken) {
    outgoing.abandoned = true;
    return false;
  }
  enqueue(to, outgoing);
  // What the provider completes at once needs no turn of the loop.
  if (!outgoing.done && !outgoing.abandoned) poll();
  progress_->kick(outgoing.header.sender_ready);
  return outgoing.done;
}

base::Task<base::Result<void>> Engine::finish(Peer& to, Outgoing& outgoing) {
  auto keep = [&outgoing](auto handler) {
    outgoing.resume = base::UniqueFunction<void()>(std::move(handler));
  };
  while (!outgoing.done && !outgoing.abandoned) {
    co_await asio::async_initiate<const asio::use_awaitable_t<base::Executor>&, void()>(
        keep, base::use_task);
  }
  if (outgoing.done) co_return base::Result<void>();
  lost(to);
  auto failure = co_await verdict();
  co_return failure;
}

Statistics Engine::statistics() const {
  Statistics all = statistics_;
  all.polling_cpu = progress_->polling_cpu();
  all.polls = progress_->polls();
  all.sleeps = progress_->sleeps();
  all.temporary_registrations = memory_.made_for_writes();
  all.registrations = memory_.made() - all.temporary_registrations;
  return all;
}

}  // namespace dlobd::transport::fabric
