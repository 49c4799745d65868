// A plain TCP connection on loopback between the two ranks of a raw arm.
#pragma once

#include <string>

#include "base/result.h"
#include "bench_forked.h"

namespace dlobd::app {

struct RawSocket {
  int fd = -1;
  explicit RawSocket(int fd) : fd(fd) {}
  RawSocket(RawSocket&& other) noexcept : fd(other.fd) { other.fd = -1; }
  RawSocket& operator=(RawSocket&&) = delete;
  ~RawSocket();
};

// Rank 0 listens on loopback, rank 1 connects. Without Nagle's delay.
base::Result<RawSocket> connect_two(Seat& seat);

// What errno says.
std::string system_reason();

}  // namespace dlobd::app
