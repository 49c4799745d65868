#include <fmt/format.h>
#include <netdb.h>

#include <algorithm>
#include <asio/ip/basic_resolver.hpp>
#include <asio/redirect_error.hpp>
#include <thread>
#include <utility>

#include "cluster/tcp_link.h"
#include "cluster/tcp_stream.h"

namespace dlobd::cluster {

using base::ErrorKind;
using base::Result;
using base::Task;

namespace {

using namespace std::chrono_literals;
using Resolver = asio::ip::basic_resolver<asio::ip::tcp, base::Executor>;
using Endpoint = asio::ip::tcp::endpoint;

constexpr base::Duration kFirstPause = 10ms;
constexpr base::Duration kLongestPause = 500ms;
// One address that swallows packets must not block the others.
constexpr base::Duration kLongestAttempt = 5s;
// A name may become known late, where hosts start together; but a wrong one should be told soon.
constexpr base::Duration kLongestUnknown = 5s;

// Ends with the socket's error, timed_out when it took too long.
Task<std::error_code> connect(base::Loop& loop, TcpSocket& socket, Endpoint where,
                              base::Time until) {
  bool late = false;
  const base::TimerId timer = loop.call_at(until, [&socket, &late] {
    late = true;
    std::error_code ignored;
    socket.close(ignored);
  });
  std::error_code error;
  auto token = asio::redirect_error(base::use_task, error);
  co_await socket.async_connect(where, token);
  loop.cancel(timer);
  if (late) co_return std::make_error_code(std::errc::timed_out);
  if (error) co_return error;
  // A free port of this very host can be given to our own end: we would talk to ourselves.
  if (socket.local_endpoint(error) == where) {
    co_return std::make_error_code(std::errc::connection_refused);
  }
  co_return error;
}

Task<Result<std::vector<Endpoint>>> resolve(base::Loop& loop, HostPort parts) {
  Resolver resolver(loop.context().get_executor());
  std::error_code error;
  auto token = asio::redirect_error(base::use_task, error);
  auto found = co_await resolver.async_resolve(parts.host, parts.port, token);
  if (error) co_return base::fail(ErrorKind::not_found, error.message());
  std::vector<Endpoint> endpoints;
  for (const auto& entry : found) endpoints.push_back(entry.endpoint());
  co_return endpoints;
}

base::Failure unknown(const HostPort& parts, const std::string& why) {
  return base::fail(ErrorKind::not_found,
                    fmt::format("cannot find the host of rank 0: {}: {}; correct the rendezvous, "
                                "or name the host by its address",
                                parts.host, why));
}

}  // namespace

Result<void> wait_for_name(const std::string& address) {
  DLOBD_TRY(parts, parse_host_port(address));
  const base::Time start = base::steady_now();
  while (true) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int code = ::getaddrinfo(parts.host.c_str(), nullptr, &hints, &found);
    if (code == 0) {
      ::freeaddrinfo(found);
      return {};
    }
    if (base::steady_now() - start > kLongestUnknown) return unknown(parts, ::gai_strerror(code));
    std::this_thread::sleep_for(kLongestPause);
  }
}

Task<Result<std::unique_ptr<Link>>> dial(base::Loop& loop, std::string address,
                                         base::Time deadline) {
  auto parts = parse_host_port(address);
  DLOBD_CO_CHECK(parts);
  const base::Time start = loop.now();
  base::Duration pause = kFirstPause;
  std::string last = "no attempt was made";
  while (loop.now() < deadline) {
    HostPort names = *parts;
    auto endpoints = co_await resolve(loop, std::move(names));
    if (!endpoints) {
      last = endpoints.error().message;
      if (loop.now() - start > kLongestUnknown) {
        co_return unknown(*parts, last);
      }
    } else {
      for (const Endpoint& where : *endpoints) {
        TcpSocket socket(loop.context().get_executor());
        const base::Time until = std::min(deadline, loop.now() + kLongestAttempt);
        const std::error_code error = co_await connect(loop, socket, where, until);
        if (!error) {
          co_return make_tcp_link(loop, std::move(socket), kMaxFrameBytes);
        }
        last = error.message();
        if (loop.now() >= deadline) break;
      }
    }
    const base::Time next = std::min(deadline, loop.now() + pause);
    co_await loop.sleep_until(next);
    pause = std::min(pause * 3 / 2, kLongestPause);
  }
  co_return base::fail(
      ErrorKind::deadline_exceeded,
      fmt::format(
          "cannot reach rank 0 at host {}, port {}, within {:.1f} s: {}; see that rank 0 is "
          "started with this rendezvous and that the port is open",
          parts->host, parts->port, std::chrono::duration<double>(deadline - start).count(), last));
}

}  // namespace dlobd::cluster
