#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <asio/basic_socket_acceptor.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

#include "cluster/tcp_link.h"
#include "cluster/tcp_stream.h"

namespace dlobd::cluster {

using base::ErrorKind;
using base::Result;

namespace {

using Acceptor = asio::basic_socket_acceptor<asio::ip::tcp, base::Executor>;

constexpr int kBacklog = 1024;
constexpr auto kPauseAfterFailure = std::chrono::milliseconds(100);

std::string reason(int error) {
  return std::generic_category().message(error);
}

Result<int> listen_at(const addrinfo& where) {
  const int fd = ::socket(where.ai_family, where.ai_socktype | SOCK_CLOEXEC, where.ai_protocol);
  if (fd < 0) return base::fail(ErrorKind::io_error, reason(errno));
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(fd, where.ai_addr, where.ai_addrlen) == 0 && ::listen(fd, kBacklog) == 0) return fd;
  const int error = errno;
  ::close(fd);
  if (error == EADDRINUSE) {
    return base::fail(ErrorKind::io_error,
                      "address in use by another program, perhaps an earlier run; end it or choose "
                      "another port");
  }
  if (error == EADDRNOTAVAIL) {
    return base::fail(ErrorKind::io_error, "this host has no such address; choose one of its own");
  }
  return base::fail(ErrorKind::io_error, reason(error));
}

Result<asio::ip::tcp::endpoint> endpoint_of(int fd) {
  asio::ip::tcp::endpoint endpoint;
  auto size = static_cast<socklen_t>(endpoint.capacity());
  if (::getsockname(fd, endpoint.data(), &size) != 0) {
    return base::fail(ErrorKind::io_error, reason(errno));
  }
  endpoint.resize(size);
  return endpoint;
}

}  // namespace

Result<HostPort> parse_host_port(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  HostPort parts;
  bool good = colon != std::string::npos && colon > 0;
  if (good) {
    parts.host = address.substr(0, colon);
    parts.port = address.substr(colon + 1);
    if (parts.host.size() > 2 && parts.host.front() == '[' && parts.host.back() == ']') {
      parts.host = parts.host.substr(1, parts.host.size() - 2);
    } else {
      good = parts.host.find_first_of(":[]") == std::string::npos;
    }
    good = good && !parts.port.empty() && parts.port.size() <= 5 &&
           parts.port.find_first_not_of("0123456789") == std::string::npos &&
           std::stoul(parts.port) <= 65535;
  }
  if (!good) {
    return base::fail(ErrorKind::invalid_argument,
                      fmt::format("not an address like node1:7000 or [::1]:7000: \"{}\"", address));
  }
  return parts;
}

Result<int> listen_on(const std::string& address) {
  DLOBD_TRY(parts, parse_host_port(address));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(parts.host.c_str(), parts.port.c_str(), &hints, &found);
  if (code != 0) {
    return base::fail(ErrorKind::not_found,
                      fmt::format("cannot listen on {}: {}", address, ::gai_strerror(code)));
  }
  Result<int> result = base::fail(ErrorKind::not_found, "no address");
  for (const addrinfo* where = found; where != nullptr && !result; where = where->ai_next) {
    result = listen_at(*where);
  }
  ::freeaddrinfo(found);
  if (!result) {
    return base::fail(result.error().kind,
                      fmt::format("cannot listen on {}: {}", address, result.error().message));
  }
  return result;
}

std::string local_address(int listening_fd) {
  const auto endpoint = endpoint_of(listening_fd);
  return endpoint ? to_text(*endpoint) : "an unknown address";
}

struct Listener::State : std::enable_shared_from_this<Listener::State> {
  explicit State(base::Loop& loop) : loop(loop), acceptor(loop.context().get_executor()) {}

  void accept() {
    acceptor.async_accept([self = shared_from_this()](std::error_code error, TcpSocket socket) {
      if (!self->acceptor.is_open()) return;
      if (!error) {
        // Frames stay small until the other side has said who it is.
        self->handler(make_tcp_link(self->loop, std::move(socket), kMaxHelloBytes));
        if (self->acceptor.is_open()) self->accept();
        return;
      }
      // Out of descriptors, or a connection that went at once: neither ends the listening.
      self->loop.call_after(kPauseAfterFailure, [weak = self->weak_from_this()] {
        auto again = weak.lock();
        if (again && again->acceptor.is_open()) again->accept();
      });
    });
  }

  base::Loop& loop;
  Acceptor acceptor;
  asio::ip::tcp::endpoint where;
  std::function<void(std::unique_ptr<Link>)> handler;
};

Listener::Listener(std::shared_ptr<State> state) : state_(std::move(state)) {}

Listener::~Listener() {
  std::error_code ignored;
  state_->acceptor.close(ignored);
}

Result<std::unique_ptr<Listener>> Listener::bind(base::Loop& loop, const std::string& address) {
  DLOBD_TRY(fd, listen_on(address));
  return from_fd(loop, fd);
}

Result<std::unique_ptr<Listener>> Listener::from_fd(base::Loop& loop, int listening_fd) {
  DLOBD_TRY(where, endpoint_of(listening_fd));
  auto state = std::make_shared<State>(loop);
  state->where = where;
  std::error_code error;
  state->acceptor.assign(where.protocol(), listening_fd, error);
  if (error) {
    ::close(listening_fd);
    return base::fail(ErrorKind::io_error,
                      fmt::format("cannot accept on {}: {}", to_text(where), error.message()));
  }
  return std::make_unique<Listener>(std::move(state));
}

void Listener::on_link(std::function<void(std::unique_ptr<Link>)> handler) {
  const bool first = !state_->handler;
  state_->handler = std::move(handler);
  if (first) state_->accept();
}

std::string Listener::address() const {
  return to_text(state_->where);
}

std::uint16_t Listener::port() const {
  return state_->where.port();
}

}  // namespace dlobd::cluster
