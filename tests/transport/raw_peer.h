// A peer made by hand from a plain socket: it says what a test wants said, however wrong.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <span>
#include <utility>
#include <vector>

#include "transport/tcp/wire.h"

namespace dlobd::transport::tcp {

class RawPeer {
 public:
  // The kernel completes it from the listener's backlog, so that one thread can be both ends.
  explicit RawPeer(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) | O_NONBLOCK);
  }
  RawPeer(RawPeer&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RawPeer& operator=(RawPeer&&) = delete;
  ~RawPeer() { close(); }

  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

  void say(std::span<const std::byte> bytes) const {
    EXPECT_EQ(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void say(const FrameHeader& header) const {
    HeaderBytes bytes;
    encode(header, bytes);
    say(bytes);
  }

  // All that is there by now; `ended` when the other side has closed.
  std::vector<std::byte> hear() {
    std::vector<std::byte> heard;
    std::array<std::byte, 4096> part;
    while (true) {
      const ssize_t got = ::recv(fd_, part.data(), part.size(), 0);
      if (got > 0) {
        heard.insert(heard.end(), part.begin(), part.begin() + got);
        continue;
      }
      if (got == 0 || errno == ECONNRESET) ended = true;
      return heard;
    }
  }
  bool ended = false;

 private:
  int fd_;
};

}  // namespace dlobd::transport::tcp
