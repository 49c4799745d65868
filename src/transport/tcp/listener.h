// Takes in connections and their greetings. A stranger (no greeting in time, one that is none, or
// one that the endpoint does not welcome) is answered if it spoke our language, dropped, and
// forgotten.
//
// Threads: belongs to the loop's thread. Owners: the endpoint and the coroutines that are under
// way.
#pragma once

#include <asio/ip/tcp.hpp>
#include <functional>
#include <list>
#include <memory>

#include "base/loop.h"
#include "base/result.h"
#include "transport/tcp/connection.h"
#include "transport/tcp/options.h"
#include "transport/tcp/wire.h"

namespace dlobd::transport::tcp {

using Acceptor = asio::basic_socket_acceptor<asio::ip::tcp, base::Executor>;

// TCP_NODELAY, buffers, non-blocking, and the kernel's own time-out for bytes without
// acknowledgement.
base::Result<void> configure(Socket& socket, const Options& options);

// Sends a hello, and receives one; io_error when the connection ends before.
base::Task<base::Result<void>> send_hello(Socket& socket, const Hello& hello);
base::Task<base::Result<Hello>> receive_hello(Socket& socket);

class Listener : public std::enable_shared_from_this<Listener> {
 public:
  // Whether a greeting is welcome, and with what to answer it.
  using Judge = std::function<Hello(const Hello& greeting)>;
  using Adopt = std::function<void(const Hello& greeting, Socket socket)>;

  // Listens on the address, on a port that the system chooses.
  static base::Result<std::shared_ptr<Listener>> open(base::Loop& loop, const Options& options);

  Listener(base::Loop& loop, const Options& options, Acceptor acceptor);

  [[nodiscard]] std::uint16_t port() const { return port_; }
  // `adopt` follows a welcome, when its answer is sent; neither is called after close().
  void start(Judge judge, Adopt adopt);
  void close();

 private:
  base::Task<void> accept_all(std::shared_ptr<Listener> self);
  base::Task<void> greet(std::shared_ptr<Listener> self, std::shared_ptr<Socket> socket);

  base::Loop& loop_;
  Options options_;
  Acceptor acceptor_;
  std::uint16_t port_ = 0;
  bool open_ = true;
  Judge judge_;
  Adopt adopt_;
  std::list<std::shared_ptr<Socket>> greeting_;  // also of their coroutines
};

}  // namespace dlobd::transport::tcp
