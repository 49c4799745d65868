// Ranks joined by RDMA, through libfabric: reliable datagrams with one-sided writes.
//
//   write   an envelope (what the message is, 48 bytes, two-sided), then the bytes, straight from
//   the
//           caller's memory into the peer's region, with remote completion data that names source,
//           kind and index; in fragments if large. The target joins the two, whichever comes first.
//   send    in packets of at most 4 KiB into receive buffers that the peer has posted.
//   credits what may be posted to a peer before it has freed buffers; they come back with packets
//           that go the other way, or in one of their own when half of them are out.
//
// A posted write cannot be recalled: fail() stops the whole endpoint before it wakes its writers,
// having told the peers; what an adapter still reads stays mapped until the endpoint goes. A peer
// that dies says nothing here (the membership's heartbeat hears it), unless the provider reports an
// error, or posted bytes make no progress for the peer time-out.
//
// shm: who dies with a queue locked leaves others to spin in the provider for ever. They get out
// (escape.h), use the provider no more, and wait to be told who was lost.
//
// Threads: belongs to the loop's thread; destroyed before the loop. Real time only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "transport/endpoint.h"
#include "transport/fabric/options.h"

namespace dlobd::transport::fabric {

// What libfabric says that it opened.
struct Opened {
  std::string provider;  // in full: "verbs;ofi_rxm"
  std::string domain;    // the device
  std::string fabric;
  std::string library;           // version of libfabric that runs: "1.17"
  bool software = false;         // a stand-in, or a device without an adapter
  bool wait_descriptor = false;  // sleeps on a descriptor; else by a timer
  bool manual_progress = false;
  std::size_t completion_data_bytes = 0;         // 8: kind and index fit; 4: they go by envelope
  std::size_t max_message_bytes = 0;             // of the provider, before fragments
  std::optional<std::uint64_t> bits_per_second;  // of the link, where it says
};

struct Statistics {
  std::uint64_t credits_sent = 0;  // messages of their own; counted apart from Counters
  base::Duration polling_cpu{0};   // of polls that found nothing, from samples
  std::uint64_t polls = 0;         // that found nothing
  std::uint64_t sleeps = 0;
  // Payload that this program copied, each way: two-sided messages only. Writes: see the next.
  std::uint64_t copied_bytes = 0;
  // Of writes: from memory that was not registered and had to be, for that once.
  std::uint64_t temporary_registrations = 0;
  std::uint64_t registrations = 0;
  std::uint64_t fragments = 0;       // one-sided operations posted
  std::uint64_t injected_bytes = 0;  // small writes, which the provider copies
  std::uint64_t waits_for_credit = 0;
  std::uint64_t strangers = 0;  // packets that did not know this rank's key
};

class FabricEndpoint : public Endpoint {
 public:
  using Endpoint::Endpoint;
  // invalid_argument or unavailable when the provider is refused or not to be had; io_error when it
  // cannot be opened.
  static base::Result<std::unique_ptr<FabricEndpoint>> make(base::Loop& loop, int rank,
                                                            int world_size, Options options);
  [[nodiscard]] virtual const Opened& opened() const = 0;
  [[nodiscard]] virtual Statistics statistics() const = 0;
};

}  // namespace dlobd::transport::fabric
