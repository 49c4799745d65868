// One established TCP connection to a peer: frames out and in.
//
// Out: start() tries the socket at once when nothing is queued; what it does not take is queued and
// goes out when the socket is writable, many frames by one call. Header and payload are gathered
// from where they lie. In: small frames come many by one call through a buffer; the rest of a large
// payload is read straight to its place. Breaks, once, on any error, and when queued bytes or
// half-received ones make no progress for the peer time-out, whatever the other direction does.
//
// Threads: belongs to the loop's thread. Owners: the endpoint, and each operation that is pending.
#pragma once

#include <asio/ip/tcp.hpp>
#include <memory>
#include <span>
#include <vector>

#include "base/lookout.h"
#include "base/loop.h"
#include "base/result.h"
#include "base/unique_function.h"
#include "transport/tcp/options.h"
#include "transport/tcp/wire.h"

namespace dlobd::transport::tcp {

using Socket = asio::basic_stream_socket<asio::ip::tcp, base::Executor>;

// A frame to send. Lives with its writer and must not move from start() until done or abandoned.
struct Outgoing {
  HeaderBytes header;
  std::span<const std::byte> payload;
  std::size_t sent_bytes = 0;  // of header and payload together
  bool done = false;           // the kernel has taken it all
  bool abandoned = false;      // the connection closed before
  base::UniqueFunction<void()> resume;
  Outgoing* next = nullptr;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // What becomes of frames; implemented by the endpoint. Calls may close this connection.
  class Owner {
   public:
    virtual ~Owner() = default;
    // Where the payload goes, exactly header.bytes; an error breaks the connection.
    virtual base::Result<std::span<std::byte>> place(Connection& from,
                                                     const FrameHeader& header) = 0;
    virtual base::Result<void> complete(Connection& from, const FrameHeader& header) = 0;
    // Closed by its other side or by an error; a connection that its owner closed says nothing.
    // unsent: frames of writers were queued.
    virtual void broke(Connection& connection, base::Error why, bool unsent) = 0;
  };

  Connection(base::Loop& loop, Socket socket, const Options& options, SystemCalls& calls,
             Owner& owner, int peer);

  void open();  // starts receiving
  // True: done already, nothing to wait for.
  bool start(Outgoing& outgoing);
  // Waits until it is done or abandoned.
  base::Task<void> finish(Outgoing& outgoing);
  // At once; wakes every writer. No call reaches the owner afterwards.
  void close();

  [[nodiscard]] int peer() const { return peer_; }
  [[nodiscard]] bool is_open() const { return open_; }
  bool said_bye = false;  // the peer, here

  // The two-sided payload that is being received (the endpoint puts it here in place()).
  std::vector<std::byte> message;

 private:
  void flush();
  void advance(std::size_t bytes);
  void wait_writable();
  void wait_readable();
  void receive();
  // What one call received, first into the payload, the rest into the buffer.
  bool consume(std::size_t bytes);
  bool begin_frame();
  bool end_frame();
  void break_off(base::ErrorKind kind, std::string what);
  [[nodiscard]] std::string while_receiving() const;
  void watch();
  void check_progress();

  base::Loop& loop_;
  Socket socket_;
  const Options& options_;  // of the owner, as calls_ is
  SystemCalls& calls_;
  Owner& owner_;
  int peer_;
  bool open_ = true;

  Outgoing* head_ = nullptr;
  Outgoing* tail_ = nullptr;
  bool waits_writable_ = false;

  std::vector<std::byte> buffer_;
  std::size_t buffered_begin_ = 0;
  std::size_t buffered_end_ = 0;
  FrameHeader incoming_;
  bool in_payload_ = false;
  std::span<std::byte> rest_;  // of the payload that is being received

  bool watching_ = false;
  base::Lookout lookout_;
  base::Time send_progress_{0};     // when the socket last took bytes, or the queue began
  base::Time receive_progress_{0};  // when bytes last came
};

}  // namespace dlobd::transport::tcp
