// How a TCP endpoint behaves. Belongs to nobody: a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/time.h"

namespace dlobd::transport::tcp {

struct Options {
  // Of this rank; listened on, and told to the peers. See interface_address() for one by name.
  std::string address = "127.0.0.1";
  std::string token;  // the job's secret, at most kMaxTokenBytes; strangers do not know it
  // Large writes are striped over all of them. The same on every rank.
  int connections_per_peer = 1;
  // Payload is written and read in pieces of at most so many bytes, a system call each. 0: as the
  // kernel takes it. (The defect of stacks whose sockets move 256 bytes at a time.)
  std::size_t piece_bytes = 0;
  bool no_delay = true;         // TCP_NODELAY
  int socket_buffer_bytes = 0;  // each way; 0: the kernel's default, which adapts itself
  // Bytes that are posted and make no progress for so long break the link.
  base::Duration peer_timeout = std::chrono::seconds(10);
  base::Duration connect_timeout = std::chrono::seconds(30);
  base::Duration hello_timeout = std::chrono::seconds(5);  // of a stranger that does not speak
};

// Calls that moved bytes, over all connections since the beginning, and their bytes (headers too).
struct SystemCalls {
  std::uint64_t sends = 0;
  std::uint64_t receives = 0;
  std::uint64_t sent_bytes = 0;
  std::uint64_t received_bytes = 0;
  // Payload that this program copied: what came through the buffer of small frames.
  std::uint64_t copied_bytes = 0;
};

}  // namespace dlobd::transport::tcp
