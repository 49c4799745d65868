#include "cluster/tcp_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/read.hpp>
#include <deque>
#include <utility>

#include "cluster/tcp_stream.h"

namespace dlobd::cluster {

namespace {

using base::ErrorKind;

constexpr std::size_t kHeaderBytes = 4;
constexpr std::size_t kPieceBytes = 1 << 20;  // memory grows with what has really come
constexpr std::size_t kMaxUnread = 16;        // frames; then the kernel holds the rest back
constexpr auto kLinger = std::chrono::seconds(1);

Frame with_header(const Frame& frame) {
  Frame wire;
  wire.reserve(kHeaderBytes + frame.size());
  for (std::size_t i = 0; i < kHeaderBytes; ++i) {
    wire.push_back(static_cast<std::byte>((frame.size() >> (8 * i)) & 0xFF));
  }
  wire.insert(wire.end(), frame.begin(), frame.end());
  return wire;
}

// Shared by the link and the operations in progress on its socket.
struct Stream : std::enable_shared_from_this<Stream> {
  Stream(base::Loop& loop, TcpSocket connected, std::size_t limit)
      : loop(loop), socket(std::move(connected)), limit(limit), frames(loop) {
    std::error_code error;
    const auto remote = socket.remote_endpoint(error);
    peer = error ? "a closed socket" : to_text(remote);
    socket.set_option(asio::ip::tcp::no_delay(true), error);
    socket.non_blocking(true, error);
  }

  void start_read() {
    if (reading || ended) return;
    reading = true;
    asio::async_read(socket, asio::buffer(header),
                     [self = shared_from_this()](std::error_code error, std::size_t) {
                       self->header_came(error);
                     });
  }

  void header_came(std::error_code error) {
    if (error) return end(error);
    std::size_t size = 0;
    for (std::size_t i = 0; i < kHeaderBytes; ++i) {
      size |= static_cast<std::size_t>(header[i]) << (8 * i);
    }
    if (size > limit) {
      frames.fail(
          base::Error(ErrorKind::refused,
                      fmt::format("control frame larger than the {} bytes allowed: {} from {}",
                                  limit, size, peer)));
      return end({});
    }
    body.clear();
    read_body(size);
  }

  void read_body(std::size_t left) {
    if (left == 0) return frame_came();
    const std::size_t before = body.size();
    const std::size_t piece = std::min(left, kPieceBytes);
    body.resize(before + piece);
    asio::async_read(socket, asio::buffer(body.data() + before, piece),
                     [self = shared_from_this(), left, piece](std::error_code error, std::size_t) {
                       if (error) return self->end(error);
                       self->read_body(left - piece);
                     });
  }

  void frame_came() {
    reading = false;
    if (!closing) frames.push(std::move(body));
    body = Frame();
    if (closing || frames.size() < kMaxUnread) start_read();
  }

  void send(Frame frame) {
    if (closing || ended) return;
    outgoing.push_back(with_header(frame));
    if (!writing) write_some();
  }

  // Writes until the kernel takes no more, then waits for it.
  void write_some() {
    while (!outgoing.empty()) {
      const Frame& first = outgoing.front();
      std::error_code error;
      written +=
          socket.write_some(asio::buffer(first.data() + written, first.size() - written), error);
      if (error == asio::error::would_block || error == asio::error::try_again) {
        writing = true;
        socket.async_wait(TcpSocket::wait_write, [self = shared_from_this()](std::error_code why) {
          self->writing = false;
          if (why) return self->end(why);
          self->write_some();
        });
        return;
      }
      // A broken pipe: what the other side said last may still be there to read, and its end.
      if (error) {
        outgoing.clear();
        written = 0;
        break;
      }
      if (written < first.size()) continue;
      written = 0;
      outgoing.pop_front();
    }
    if (closing) finish_writing();
  }

  void close() {
    if (closing) return;
    closing = true;
    frames.fail(base::Error(ErrorKind::io_error, "the link was closed on this side"));
    if (ended) return;
    start_read();
    if (!writing) finish_writing();
    loop.call_after(kLinger, [weak = weak_from_this()] {
      if (auto self = weak.lock()) self->end({});
    });
  }

  void finish_writing() {
    std::error_code ignored;
    socket.shutdown(TcpSocket::shutdown_send, ignored);
  }

  void end(std::error_code why) {
    if (ended) return;
    ended = true;
    if (why) {
      frames.fail(base::Error(ErrorKind::io_error,
                              why == asio::error::eof
                                  ? fmt::format("the other side closed the link: {}", peer)
                                  : fmt::format("the link broke: {}: {}", peer, why.message())));
    }
    std::error_code ignored;
    socket.close(ignored);
  }

  base::Loop& loop;
  TcpSocket socket;
  std::string peer;
  std::size_t limit;
  base::Queue<Frame> frames;
  std::array<std::uint8_t, kHeaderBytes> header{};
  Frame body;
  std::deque<Frame> outgoing;
  std::size_t written = 0;  // of the first outgoing
  bool reading = false;
  bool writing = false;
  bool closing = false;
  bool ended = false;
};

class TcpLink final : public Link {
 public:
  explicit TcpLink(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {
    stream_->start_read();
  }
  ~TcpLink() override { stream_->close(); }

  void send(Frame frame) override { stream_->send(std::move(frame)); }

  base::Task<base::Result<Frame>> receive() override {
    auto stream = stream_;  // the link may go while this waits
    auto frame = co_await stream->frames.pop();
    if (frame) stream->start_read();
    co_return frame;
  }

  void close() override { stream_->close(); }
  void lift_limit() override { stream_->limit = kMaxFrameBytes; }
  [[nodiscard]] std::string peer() const override { return stream_->peer; }

 private:
  std::shared_ptr<Stream> stream_;
};

}  // namespace

std::unique_ptr<Link> make_tcp_link(base::Loop& loop, TcpSocket socket, std::size_t limit) {
  return std::make_unique<TcpLink>(std::make_shared<Stream>(loop, std::move(socket), limit));
}

std::string to_text(const asio::ip::tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  return endpoint.address().is_v6() ? fmt::format("[{}]:{}", address, endpoint.port())
                                    : fmt::format("{}:{}", address, endpoint.port());
}

}  // namespace dlobd::cluster
