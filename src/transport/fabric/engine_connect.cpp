// How an endpoint meets its peers: the lower rank greets the higher one, which answers; each proves
// the job's token and gives the key that it wants to be shown.
#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "base/check.h"
#include "base/secret.h"
#include "transport/fabric/engine.h"

namespace dlobd::transport::fabric {

base::Result<void> Engine::meet(const std::vector<std::vector<std::byte>>& descriptors) {
  std::random_device random;  // strangers must not guess the keys
  std::vector<Peer> peers(descriptors.size());
  for (std::size_t i = 0; i < peers.size(); ++i) {
    Peer& other = peers[i];
    other.rank = static_cast<int>(i);
    if (other.rank == rank()) continue;
    auto described = parse_description(descriptors[i]);
    if (!described) {
      return base::fail(described.error().while_doing(fmt::format("reading rank {}'s", i)));
    }
    other.there = std::move(*described);
    if (other.there.provider != opened().provider) {
      return base::fail(base::ErrorKind::invalid_argument,
                        fmt::format("ranks must use one RDMA provider: rank {} has {}, rank {} {}",
                                    rank(), opened().provider, i, other.there.provider),
                        other.rank);
    }
    auto inserted = adapter_->insert(other.there.address);
    if (!inserted) {
      return base::fail(inserted.error().while_doing(fmt::format("connecting to rank {}", i)));
    }
    other.address = *inserted;
    if (other.there.mark_width != mark_width_) {
      return base::fail(
          base::ErrorKind::invalid_argument,
          fmt::format("ranks' RDMA adapters carry completion data of different sizes: rank {} {} "
                      "bytes, rank {} {}",
                      rank(), static_cast<int>(mark_width_), i,
                      static_cast<int>(other.there.mark_width)),
          other.rank);
    }
    other.credits = other.there.credits;
    for (const auto& [id, region] : other.there.regions) other.sizes.emplace(id, region.bytes);
    other.key_here = std::uint64_t{random()} << 32 | random();
  }
  peers_ = std::move(peers);
  return {};
}

base::Task<base::Result<void>> Engine::connect(
    const std::vector<std::vector<std::byte>>& descriptors) {
  if (error()) co_return base::fail(*error());
  CHECK(descriptors.size() == static_cast<std::size_t>(world_size()), "{} descriptors for {} ranks",
        descriptors.size(), world_size());
  CHECK(peers_.empty(), "rank {} connects twice", rank());
  auto met = meet(descriptors);
  DLOBD_CO_CHECK(met);
  Progress::Calls calls;
  calls.poll = [this] { return poll(); };
  calls.may_wait = [this] { return blocked_.empty() && unposted_.empty() && adapter_->may_wait(); };
  calls.expects = [this] {
    return std::any_of(peers_.begin(), peers_.end(),
                       [](const Peer& each) { return each.outstanding > 0; });
  };
  calls.look = [this](base::Time now) { watch(now); };
  if (opened().provider == "shm") escape_.watch();
  lookout_.arm(loop().now());
  progress_->start(std::move(calls));
  for (int other = rank() + 1; other < world_size(); ++other) {
    say_hello(peer(other), PacketType::hello, Answer::asking, peer(other).key_here);
  }
  const base::Time deadline = loop().now() + options_.connect_timeout;
  const base::TimerId timer = loop().call_at(deadline, [this] { changed_.wake_all(); });
  while (!error() && !refused_ && !missing().empty() && loop().now() < deadline) {
    co_await changed_.wait();
  }
  loop().cancel(timer);
  if (error()) co_return base::fail(*error());
  if (refused_) co_return base::fail(*refused_);
  const std::vector<int> late = missing();
  if (!late.empty()) {
    base::Error why = not_connected(late, options_.connect_timeout);
    if (!hello_refused_.empty()) why.message += "; refused: " + hello_refused_;
    co_return base::fail(std::move(why));
  }
  adapter_->forget_name();
  co_return base::Result<void>();
}

void Engine::say_hello(Peer& to, PacketType type, Answer answer, std::uint64_t key) {
  Hello hello;
  hello.answer = answer;
  hello.peer = static_cast<std::uint32_t>(to.rank);
  hello.world_size = static_cast<std::uint32_t>(world_size());
  hello.key = key;
  if (answer == Answer::asking || answer == Answer::welcome) {
    hello.token = options_.token;  // a wrong hello is not told ours
  }
  control(to, type, encode(hello));
}

void Engine::on_hello(const Header& header, std::span<const std::byte> payload) {
  auto hello = parse_hello(payload);
  const bool known = header.source < peers_.size() && header.source != rank();
  if (!hello || !known) {
    ++statistics_.strangers;
    return;
  }
  Peer& from = peer(header.source);
  const bool asks = header.type == PacketType::hello;
  if (from.connected || from.broken || asks != (from.rank < rank())) {
    ++statistics_.strangers;
    return;
  }
  if (!asks && hello->answer != Answer::welcome) {
    if (hello->key != from.key_here) {  // of nobody who has heard the hello
      ++statistics_.strangers;
      return;
    }
    refused_ = base::Error(base::ErrorKind::refused,
                           fmt::format("cannot connect to a peer: rank {}: refused: {}", from.rank,
                                       describe(hello->answer)),
                           from.rank);
    changed_.wake_all();
    return;
  }
  Answer answer = Answer::welcome;
  if (!base::same_secret(options_.token, hello->token)) {
    answer = Answer::wrong_token;
  } else if (hello->peer != static_cast<std::uint32_t>(rank()) ||
             hello->world_size != static_cast<std::uint32_t>(world_size())) {
    answer = Answer::wrong_rank;
  }
  if (answer != Answer::welcome) {
    hello_refused_ = fmt::format("rank {}: {}", from.rank, describe(answer));
    if (asks) say_hello(from, PacketType::answer, answer, hello->key);
    return;
  }
  from.key_there = hello->key;
  from.connected = true;
  if (asks) say_hello(from, PacketType::answer, answer, from.key_here);
  changed_.wake_all();
}

std::vector<int> Engine::missing() const {
  std::vector<int> ranks;
  for (const Peer& each : peers_) {
    if (each.rank != rank() && !each.connected) ranks.push_back(each.rank);
  }
  return ranks;
}

}  // namespace dlobd::transport::fabric
