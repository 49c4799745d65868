// What a ping-pong and a stream between two processes of one host could take at best: plain
// sockets, and memory that both share, with nothing around them. One setting is not a bound, so
// there are several, and the best of them for each size is the limit.
//
//   sockets   send(2) and recv(2) of the whole size, sleeping in poll(2) or asking all the time
//   memory    the bytes are copied to where the peer wants them (memcpy into memory that both have
//             mapped, or process_vm_writev(2) into its own), then a counter says so
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench_forked.h"

namespace dlobd::app {

struct RawPingPong {
  std::string name;
  bool memory = false;     // else sockets
  bool spin = false;       // sockets: ask all the time
  bool by_kernel = false;  // memory: process_vm_writev(2)
};
std::vector<RawPingPong> raw_ping_pongs();

// Memory that the two forked ranks share: make it before they are forked.
class SharedMemory {
 public:
  // throws std::bad_alloc: the system has no such memory.
  explicit SharedMemory(std::uint64_t bytes);
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  std::byte* data_;
  std::uint64_t bytes_;
};
// Of the counters and both ranks' targets.
std::uint64_t shared_bytes(const std::vector<std::uint64_t>& sizes);

// The body of one of two ranks; its blob is that of ping_pong(), without copies.
base::Result<Blob> raw_ping_pong(Seat& seat, const RawPingPong& setting, std::byte* shared,
                                 const std::vector<std::uint64_t>& sizes,
                                 std::size_t most = std::numeric_limits<std::size_t>::max());

}  // namespace dlobd::app
