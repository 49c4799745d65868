#include "transport/tcp/listener.h"

#include <fmt/format.h>
#include <netinet/tcp.h>

#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/write.hpp>

namespace dlobd::transport::tcp {

base::Result<void> configure(Socket& socket, const Options& options) {
  std::error_code error;
  socket.native_non_blocking(true, error);
  if (!error) socket.set_option(asio::ip::tcp::no_delay(options.no_delay), error);
  if (!error && options.socket_buffer_bytes > 0) {
    socket.set_option(asio::socket_base::send_buffer_size(options.socket_buffer_bytes), error);
    if (!error) {
      socket.set_option(asio::socket_base::receive_buffer_size(options.socket_buffer_bytes), error);
    }
  }
  if (!error) {
    using UserTimeout = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_USER_TIMEOUT>;
    // Twice ours: a peer that does not read is our own finding, with words of its own.
    const auto milliseconds = 2 * options.peer_timeout / std::chrono::milliseconds(1);
    socket.set_option(UserTimeout(static_cast<int>(milliseconds)), error);
  }
  if (error) {
    return base::fail(base::ErrorKind::io_error,
                      fmt::format("cannot set up a socket: {}", error.message()));
  }
  return {};
}

base::Task<base::Result<void>> send_hello(Socket& socket, const Hello& hello) {
  const HelloBytes bytes = encode(hello);
  std::error_code error;
  auto token = asio::redirect_error(base::use_task, error);
  co_await asio::async_write(socket, asio::buffer(bytes), token);
  if (error) {
    co_return base::fail(base::ErrorKind::io_error,
                         fmt::format("sending a greeting failed: {}", error.message()));
  }
  co_return base::Result<void>();
}

base::Task<base::Result<Hello>> receive_hello(Socket& socket) {
  HelloBytes bytes;
  std::error_code error;
  auto token = asio::redirect_error(base::use_task, error);
  co_await asio::async_read(socket, asio::buffer(bytes), token);
  if (error) {
    co_return base::fail(base::ErrorKind::io_error,
                         fmt::format("no greeting came: {}", error.message()));
  }
  co_return parse_hello(bytes);
}

base::Result<std::shared_ptr<Listener>> Listener::open(base::Loop& loop, const Options& options) {
  const auto failed = [&options](const std::error_code& error) {
    return base::fail(base::ErrorKind::io_error, fmt::format("cannot listen on an address: {}: {}",
                                                             options.address, error.message()));
  };
  std::error_code error;
  const auto address = asio::ip::make_address(options.address, error);
  if (error) return failed(error);
  const asio::ip::tcp::endpoint endpoint(address, 0);
  Acceptor acceptor(loop.context().get_executor());
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return failed(error);
  return std::make_shared<Listener>(loop, options, std::move(acceptor));
}

Listener::Listener(base::Loop& loop, const Options& options, Acceptor acceptor)
    : loop_(loop), options_(options), acceptor_(std::move(acceptor)) {
  std::error_code ignored;
  port_ = acceptor_.local_endpoint(ignored).port();
}

void Listener::start(Judge judge, Adopt adopt) {
  judge_ = std::move(judge);
  adopt_ = std::move(adopt);
  loop_.spawn(accept_all(shared_from_this()));
}

void Listener::close() {
  open_ = false;
  judge_ = nullptr;
  adopt_ = nullptr;
  std::error_code ignored;
  acceptor_.close(ignored);
  for (const auto& socket : greeting_) socket->close(ignored);
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): `self` keeps this alive
base::Task<void> Listener::accept_all(std::shared_ptr<Listener> self) {
  while (open_) {
    auto socket = std::make_shared<Socket>(loop_.context().get_executor());
    std::error_code error;
    auto token = asio::redirect_error(base::use_task, error);
    co_await acceptor_.async_accept(*socket, token);
    if (!open_) break;
    if (error) {  // out of descriptors, or the connection is gone again
      co_await loop_.sleep_for(std::chrono::milliseconds(20));
      continue;
    }
    loop_.spawn(greet(self, std::move(socket)));
  }
}

base::Task<void> Listener::greet(std::shared_ptr<Listener> self, std::shared_ptr<Socket> socket) {
  const auto place = greeting_.insert(greeting_.end(), socket);
  const base::TimerId deadline = loop_.call_after(options_.hello_timeout, [socket] {
    std::error_code ignored;
    socket->close(ignored);
  });
  auto greeting = co_await receive_hello(*socket);
  if (greeting && self->open_) {
    const Hello answer = judge_(*greeting);
    auto answered = co_await send_hello(*socket, answer);
    if (answered && open_ && socket->is_open() && answer.answer == Answer::welcome) {
      adopt_(*greeting, std::move(*socket));
    }
  }
  loop_.cancel(deadline);
  std::error_code ignored;
  socket->close(ignored);
  greeting_.erase(place);
}

}  // namespace dlobd::transport::tcp
