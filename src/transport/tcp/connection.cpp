#include "transport/tcp/connection.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "transport/tcp/listener.h"

namespace dlobd::transport::tcp {

namespace {

// Small enough that little of a large payload passes through it by a copy.
constexpr std::size_t kBufferBytes = 16 * 1024;
// What one direction moves before the loop turns to others.
constexpr std::size_t kTurnBytes = 512 * 1024;
constexpr int kGather = 16;

iovec vector_of(std::span<const std::byte> bytes) {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};  // sendmsg does not write to it
}

std::string reason(int code) {
  return std::error_code(code, std::system_category()).message();
}

}  // namespace

Connection::Connection(base::Loop& loop, Socket socket, const Options& options, SystemCalls& calls,
                       Owner& owner, int peer)
    : loop_(loop),
      socket_(std::move(socket)),
      options_(options),
      calls_(calls),
      owner_(owner),
      peer_(peer),
      buffer_(kBufferBytes),
      lookout_(options.peer_timeout) {}

void Connection::open() {
  auto configured = configure(socket_, options_);
  if (configured) {
    wait_readable();
  } else {
    break_off(configured.error().kind, configured.error().message);
  }
}

bool Connection::start(Outgoing& outgoing) {
  if (!open_) {
    outgoing.abandoned = true;
    return false;
  }
  if (head_ != nullptr) {
    tail_->next = &outgoing;
    tail_ = &outgoing;
    return false;
  }
  head_ = tail_ = &outgoing;
  send_progress_ = loop_.now();
  flush();
  return outgoing.done;
}

base::Task<void> Connection::finish(Outgoing& outgoing) {
  auto keep = [&outgoing](auto handler) {
    outgoing.resume = base::UniqueFunction<void()>(std::move(handler));
  };
  while (!outgoing.done && !outgoing.abandoned) {
    co_await asio::async_initiate<const asio::use_awaitable_t<base::Executor>&, void()>(
        keep, base::use_task);
  }
}

void Connection::flush() {
  std::size_t turn = 0;
  while (open_ && head_ != nullptr) {
    std::array<iovec, kGather> parts;
    std::size_t count = 0;
    for (Outgoing* frame = head_; frame != nullptr && count + 2 <= parts.size();
         frame = frame->next) {
      std::span<const std::byte> payload = frame->payload;
      if (frame->sent_bytes < kHeaderBytes) {
        parts[count++] = vector_of(std::span(frame->header).subspan(frame->sent_bytes));
        if (options_.piece_bytes > 0) break;
      } else {
        payload = payload.subspan(frame->sent_bytes - kHeaderBytes);
      }
      if (options_.piece_bytes > 0)
        payload = payload.first(std::min(payload.size(), options_.piece_bytes));
      if (!payload.empty()) parts[count++] = vector_of(payload);
      if (options_.piece_bytes > 0) break;
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t sent = ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      break_off(base::ErrorKind::io_error,
                fmt::format("sending failed: rank {}: {}", peer_, reason(errno)));
      return;
    }
    ++calls_.sends;
    calls_.sent_bytes += static_cast<std::uint64_t>(sent);
    advance(static_cast<std::size_t>(sent));
    turn += static_cast<std::size_t>(sent);
    if (turn >= kTurnBytes) break;
  }
  if (open_ && head_ != nullptr) wait_writable();
}

void Connection::advance(std::size_t bytes) {
  send_progress_ = loop_.now();
  while (head_ != nullptr) {
    Outgoing& frame = *head_;
    const std::size_t size = kHeaderBytes + frame.payload.size();
    const std::size_t part = std::min(bytes, size - frame.sent_bytes);
    frame.sent_bytes += part;
    bytes -= part;
    if (frame.sent_bytes < size) break;
    head_ = frame.next;
    frame.done = true;
    if (frame.resume) loop_.post(std::move(frame.resume));
  }
  if (head_ == nullptr) tail_ = nullptr;
}

void Connection::wait_writable() {
  watch();
  if (waits_writable_) return;
  waits_writable_ = true;
  socket_.async_wait(Socket::wait_write, [self = shared_from_this()](const std::error_code& error) {
    self->waits_writable_ = false;
    if (!error && self->open_) self->flush();
  });
}

void Connection::wait_readable() {
  if (in_payload_) watch();
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](const std::error_code& error) {
    if (!error && self->open_) self->receive();
  });
}

void Connection::receive() {
  std::size_t turn = 0;
  while (turn < kTurnBytes) {
    std::array<iovec, 2> parts;
    int count = 0;
    std::size_t wanted = 0;
    const auto want = [&](std::byte* to, std::size_t bytes) {
      parts[static_cast<std::size_t>(count++)] = {to, bytes};
      wanted += bytes;
    };
    if (buffered_begin_ > 0) {  // what is left there is less than a header
      std::memmove(buffer_.data(), buffer_.data() + buffered_begin_,
                   buffered_end_ - buffered_begin_);
      buffered_end_ -= buffered_begin_;
      buffered_begin_ = 0;
    }
    if (options_.piece_bytes > 0) {
      if (in_payload_) {
        want(rest_.data(), std::min(rest_.size(), options_.piece_bytes));
      } else {
        want(buffer_.data() + buffered_end_, kHeaderBytes - buffered_end_);
      }
    } else {
      if (in_payload_) want(rest_.data(), rest_.size());
      want(buffer_.data() + buffered_end_, buffer_.size() - buffered_end_);
    }
    const ssize_t got = ::readv(socket_.native_handle(), parts.data(), count);
    if (got < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      break_off(base::ErrorKind::io_error,
                fmt::format("receiving failed{}: rank {}{}", in_payload_ ? " in a message" : "",
                            peer_, while_receiving() + ": " + reason(errno)));
      return;
    }
    if (got == 0) {
      break_off(
          base::ErrorKind::io_error,
          fmt::format("peer closed the connection{}: rank {}{}",
                      in_payload_ ? " while receiving a message" : "", peer_, while_receiving()));
      return;
    }
    ++calls_.receives;
    calls_.received_bytes += static_cast<std::uint64_t>(got);
    receive_progress_ = loop_.now();
    if (!consume(static_cast<std::size_t>(got))) return;
    if (static_cast<std::size_t>(got) < wanted) break;  // the socket is drained
    turn += static_cast<std::size_t>(got);
  }
  wait_readable();
}

bool Connection::consume(std::size_t bytes) {
  if (in_payload_) {
    const std::size_t part = std::min(bytes, rest_.size());
    rest_ = rest_.subspan(part);
    bytes -= part;
    if (rest_.empty() && !end_frame()) return false;
  }
  buffered_end_ += bytes;
  while (!in_payload_ && buffered_end_ - buffered_begin_ >= kHeaderBytes) {
    if (!begin_frame()) return false;
    const std::size_t part = std::min(rest_.size(), buffered_end_ - buffered_begin_);
    if (part > 0) std::memcpy(rest_.data(), buffer_.data() + buffered_begin_, part);
    calls_.copied_bytes += part;
    buffered_begin_ += part;
    rest_ = rest_.subspan(part);
    if (rest_.empty() && !end_frame()) return false;
  }
  return true;
}

bool Connection::begin_frame() {
  const std::span<const std::byte, kHeaderBytes> bytes(buffer_.data() + buffered_begin_,
                                                       kHeaderBytes);
  buffered_begin_ += kHeaderBytes;
  auto header = parse_header(bytes);
  if (header) {
    incoming_ = *header;
    auto place = owner_.place(*this, incoming_);
    if (place) {
      CHECK(place->size() == incoming_.bytes, "a place of {} bytes for {}", place->size(),
            incoming_.bytes);
      in_payload_ = true;
      rest_ = *place;
      return true;
    }
    header = base::fail(place.error());
  }
  break_off(header.error().kind, fmt::format("peer sent what no frame may hold: rank {}: {}", peer_,
                                             header.error().message));
  return false;
}

bool Connection::end_frame() {
  in_payload_ = false;
  auto complete = owner_.complete(*this, incoming_);
  if (!complete) {
    break_off(complete.error().kind, fmt::format("peer sent what no frame may hold: rank {}: {}",
                                                 peer_, complete.error().message));
  }
  return open_;
}

std::string Connection::while_receiving() const {
  if (!in_payload_) return {};
  return fmt::format(", {} of {} bytes", incoming_.bytes - rest_.size(), incoming_.bytes);
}

void Connection::break_off(base::ErrorKind kind, std::string what) {
  if (!open_) return;
  const auto self = shared_from_this();
  const bool unsent = head_ != nullptr;
  close();
  owner_.broke(*this, base::Error(kind, std::move(what), peer_), unsent);
}

void Connection::close() {
  if (!open_) return;
  open_ = false;
  std::error_code ignored;
  socket_.close(ignored);
  while (head_ != nullptr) {
    Outgoing& frame = *head_;
    head_ = frame.next;
    frame.abandoned = true;
    if (frame.resume) loop_.post(std::move(frame.resume));
  }
  tail_ = nullptr;
}

void Connection::watch() {
  if (watching_) return;
  watching_ = true;
  lookout_.arm(loop_.now());
  loop_.call_at(lookout_.due(), [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->watching_ = false;
    if (self->open_) self->check_progress();
  });
}

void Connection::check_progress() {
  if (head_ == nullptr && !in_payload_) return;
  const base::Time now = loop_.now();
  if (!lookout_.on_time(now)) send_progress_ = receive_progress_ = now;
  const bool send_stalled = head_ != nullptr && now - send_progress_ >= options_.peer_timeout;
  const bool receive_stalled = in_payload_ && now - receive_progress_ >= options_.peer_timeout;
  if (!send_stalled && !receive_stalled) {
    watch();
    return;
  }
  const auto limit = options_.peer_timeout / std::chrono::milliseconds(1);
  if (send_stalled) {
    break_off(base::ErrorKind::deadline_exceeded,
              fmt::format("the peer takes no more bytes: rank {}, none in {} ms, {} of {} bytes",
                          peer_, limit, head_->sent_bytes, kHeaderBytes + head_->payload.size()));
  } else {
    break_off(base::ErrorKind::deadline_exceeded,
              fmt::format("the peer stopped in the middle of a message: rank {}, none in {} ms{}",
                          peer_, limit, while_receiving()));
  }
}

}  // namespace dlobd::transport::tcp
