// How a TCP endpoint finds its peers.
#include <fmt/format.h>

#include <algorithm>
#include <asio/redirect_error.hpp>

#include "base/check.h"
#include "base/secret.h"
#include "transport/tcp/endpoint.h"

namespace dlobd::transport::tcp {

base::Task<base::Result<void>> TcpEndpoint::connect(
    const std::vector<std::vector<std::byte>>& descriptors) {
  if (error()) co_return base::fail(*error());
  CHECK(descriptors.size() == static_cast<std::size_t>(world_size()), "{} descriptors for {} ranks",
        descriptors.size(), world_size());
  CHECK(peers_.empty(), "rank {} connects twice", rank());
  std::vector<Peer> peers(descriptors.size());
  for (std::size_t other = 0; other < peers.size(); ++other) {
    auto described = decode_descriptor(descriptors[other]);
    if (!described) {
      co_return base::fail(described.error().while_doing(fmt::format("reading rank {}'s", other)));
    }
    peers[other].descriptor = std::move(*described);
    if (static_cast<int>(other) != rank()) {
      peers[other].connections.resize(static_cast<std::size_t>(options_.connections_per_peer));
    }
  }
  peers_ = std::move(peers);
  listener_->start([this](const Hello& greeting) { return judge(greeting); },
                   [this](const Hello& greeting, Socket socket) {
                     adopt(static_cast<int>(greeting.rank), static_cast<int>(greeting.connection),
                           std::move(socket));
                   });
  const base::Time deadline = loop().now() + options_.connect_timeout;
  base::TaskGroup dials(loop());
  for (int other = rank() + 1; other < world_size(); ++other) {
    for (int number = 0; number < options_.connections_per_peer; ++number) {
      dials.spawn(dial(other, number));
    }
  }
  auto dialled = co_await dials.join();
  if (error()) co_return base::fail(*error());
  DLOBD_CO_CHECK(dialled);
  const base::TimerId timer = loop().call_at(deadline, [this] { changed_.wake_all(); });
  while (!error() && !missing().empty() && loop().now() < deadline) co_await changed_.wait();
  loop().cancel(timer);
  if (error()) co_return base::fail(*error());
  const std::vector<int> late = missing();
  if (!late.empty()) co_return base::fail(not_connected(late, options_.connect_timeout));
  co_return base::Result<void>();
}

base::Task<base::Result<void>> TcpEndpoint::dial(int rank, int number) {
  auto socket = std::make_shared<Socket>(loop().context().get_executor());
  dialling_.push_back(socket);
  bool late = false;
  const base::TimerId deadline = loop().call_after(options_.connect_timeout, [socket, &late] {
    late = true;
    std::error_code ignored;
    socket->close(ignored);
  });
  auto greeted = co_await greet(*socket, rank, number);
  loop().cancel(deadline);
  std::erase(dialling_, socket);
  if (error()) co_return base::fail(*error());
  if (!greeted) {
    const Descriptor& there = peer(rank).descriptor;
    const auto kind = greeted.error().kind == base::ErrorKind::refused ? base::ErrorKind::refused
                                                                       : base::ErrorKind::peer_lost;
    co_return base::fail(
        kind,
        fmt::format("cannot connect to a peer: rank {} at {}:{}: {}", rank, there.address,
                    there.port, late ? "no answer in time" : greeted.error().message),
        rank);
  }
  adopt(rank, number, std::move(*socket));
  co_return base::Result<void>();
}

base::Task<base::Result<void>> TcpEndpoint::greet(Socket& socket, int rank, int number) {
  const Descriptor& there = peer(rank).descriptor;
  std::error_code failure;
  const auto address = asio::ip::make_address(there.address, failure);
  if (!failure) {
    const asio::ip::tcp::endpoint endpoint(address, there.port);
    auto token = asio::redirect_error(base::use_task, failure);
    co_await socket.async_connect(endpoint, token);
  }
  if (failure) co_return base::fail(base::ErrorKind::io_error, failure.message());
  Hello hello;
  hello.rank = static_cast<std::uint32_t>(this->rank());
  hello.peer = static_cast<std::uint32_t>(rank);
  hello.world_size = static_cast<std::uint32_t>(world_size());
  hello.connection = static_cast<std::uint32_t>(number);
  hello.token = options_.token;
  auto sent = co_await send_hello(socket, hello);
  DLOBD_CO_CHECK(sent);
  auto answer = co_await receive_hello(socket);
  DLOBD_CO_CHECK(answer);
  if (answer->answer != Answer::welcome) {
    co_return base::fail(base::ErrorKind::refused,
                         fmt::format("refused: {}", describe(answer->answer)));
  }
  if (!base::same_secret(options_.token, answer->token) || answer->rank != hello.peer) {
    co_return base::fail(base::ErrorKind::refused, "somebody else answers there");
  }
  co_return base::Result<void>();
}

Hello TcpEndpoint::judge(const Hello& greeting) {
  Hello answer;
  answer.rank = static_cast<std::uint32_t>(rank());
  answer.peer = greeting.rank;
  answer.world_size = static_cast<std::uint32_t>(world_size());
  answer.connection = greeting.connection;
  if (!base::same_secret(options_.token, greeting.token)) {
    answer.answer = Answer::wrong_token;
  } else if (greeting.answer != Answer::asking || greeting.peer != answer.rank ||
             greeting.world_size != answer.world_size || greeting.rank >= answer.rank ||
             greeting.connection >= static_cast<std::uint32_t>(options_.connections_per_peer)) {
    answer.answer = Answer::wrong_rank;
  } else if (peer(static_cast<int>(greeting.rank)).connections[greeting.connection] != nullptr) {
    answer.answer = Answer::duplicate;
  } else {
    answer.answer = Answer::welcome;
    answer.token = options_.token;  // told to nobody else
  }
  return answer;
}

void TcpEndpoint::adopt(int rank, int number, Socket socket) {
  auto& slot = peer(rank).connections[static_cast<std::size_t>(number)];
  if (slot != nullptr || error()) return;  // two at once: the first was welcome
  Connection::Owner& owner = *this;
  auto connection =
      std::make_shared<Connection>(loop(), std::move(socket), options_, calls_, owner, rank);
  slot = connection;
  changed_.wake_all();
  connection->open();
}

std::vector<int> TcpEndpoint::missing() const {
  std::vector<int> ranks;
  for (int other = 0; other < static_cast<int>(peers_.size()); ++other) {
    const auto& connections = peers_[static_cast<std::size_t>(other)].connections;
    if (std::find(connections.begin(), connections.end(), nullptr) == connections.end()) continue;
    ranks.push_back(other);
  }
  return ranks;
}

}  // namespace dlobd::transport::tcp
