// Control links over TCP: a 32-bit little-endian length, then the frame. TCP_NODELAY; small frames
// go to the kernel inside send(), so that what was sent survives the end of the process.
//
// A length above the link's limit ends the link before anything is allocated. An accepted link has
// the small limit kMaxHelloBytes until lift_limit(); a dialled one has kMaxFrameBytes at once.
// close() sends what is queued, then reads and drops what still comes for a moment, because closing
// a socket with unread bytes resets it and may take the last frames with it.
#pragma once

#include <asio/ip/tcp.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/loop.h"
#include "base/result.h"
#include "cluster/link.h"

namespace dlobd::cluster {

inline constexpr std::size_t kMaxHelloBytes = 16 << 10;

struct HostPort {
  std::string host;
  std::string port;
};

// "node1:7000", "127.0.0.1:0", "[::1]:7000". invalid_argument for anything else.
base::Result<HostPort> parse_host_port(const std::string& address);

// Until the host has an address; blocks the thread. not_found where it has none after the seconds
// in which hosts that start together come to know each other.
base::Result<void> wait_for_name(const std::string& address);

// Connects to `address`, again and again with growing pauses until `deadline` (the loop's clock),
// since the other side may start later. deadline_exceeded names host, port, the last refusal and
// what to do.
base::Task<base::Result<std::unique_ptr<Link>>> dial(base::Loop& loop, std::string address,
                                                     base::Time deadline);

// A bound, listening, close-on-exec socket. io_error says "address in use" for a busy port.
base::Result<int> listen_on(const std::string& address);

// "127.0.0.1:40312": where a listening socket listens.
std::string local_address(int listening_fd);

// Accepts links. Belongs to the loop's thread.
class Listener {
 public:
  static base::Result<std::unique_ptr<Listener>> bind(base::Loop& loop, const std::string& address);
  // Takes over a socket that is listening already (inherited from a launcher).
  static base::Result<std::unique_ptr<Listener>> from_fd(base::Loop& loop, int listening_fd);
  ~Listener();

  // Gives each new link to `handler` until the listener goes.
  void on_link(std::function<void(std::unique_ptr<Link>)> handler);
  [[nodiscard]] std::string address() const;
  [[nodiscard]] std::uint16_t port() const;

  struct State;
  explicit Listener(std::shared_ptr<State> state);

 private:
  std::shared_ptr<State> state_;  // shared with the pending accept
};

}  // namespace dlobd::cluster
