// What an endpoint keeps of each peer: what goes out and waits for credit, and what has come in
// part.
//
// Threads: belongs to the loop's thread.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/unique_function.h"
#include "transport/endpoint.h"
#include "transport/fabric/adapter.h"
#include "transport/fabric/wire.h"

namespace dlobd::transport::fabric {

// A message on its way. Lives with its writer and does not move until it is done or abandoned.
struct Outgoing {
  Header header;
  std::span<const std::byte> bytes;
  void* local = nullptr;             // of a write: the registration of `bytes`, where one is needed
  std::uint64_t remote_address = 0;  // of a write
  std::uint64_t remote_key = 0;
  std::uint32_t steps = 0;    // operations to post, an envelope among them
  std::uint32_t posted = 0;   // of them
  std::uint32_t pending = 0;  // posted, the provider still reads `bytes`
  bool done = false;
  bool abandoned = false;  // its link is broken or the endpoint has failed
  base::UniqueFunction<void()> resume;
  Outgoing* next = nullptr;
};

// One posted operation, by its address, which the provider gives back.
struct Operation {
  enum class Type : std::uint8_t { receive, write, packet };
  fi_context2 context{};  // the provider's own, where it wants some
  Type type = Type::receive;
  int peer = -1;              // of a write or a packet; of a receive: who gets the credit
  Outgoing* owner = nullptr;  // of a write; none once it is abandoned
  std::span<std::byte> buffer;
};

// A packet that asks for no credit.
struct ControlPacket {
  Header header;
  std::vector<std::byte> payload;
};

// A message of which something has come, or which came before an earlier one.
struct Partial {
  std::optional<Header> header;
  std::uint32_t parts = 0;  // marks or packets
  std::optional<Notification> marked;
  std::vector<std::byte> payload;
};

struct Peer {
  int rank = 0;
  Description there;
  RegionSizes sizes;
  fi_addr_t address = FI_ADDR_UNSPEC;
  std::uint64_t key_here = 0;   // that it shows
  std::uint64_t key_there = 0;  // that it wants to be shown
  bool connected = false;
  bool broken = false;
  std::optional<std::uint32_t> bye;  // the number of messages it has sent, from its goodbye

  std::uint32_t credits = 0;  // packets and marks that it has room for
  std::uint32_t owed = 0;     // that it has used and that are free again
  std::deque<ControlPacket> control;
  Outgoing* head = nullptr;
  Outgoing* tail = nullptr;
  std::uint32_t outstanding = 0;  // operations posted to it that have not completed
  std::uint32_t writes = 0;       // of them, one-sided
  base::Time progress{0};         // when the last of them did, or the first was posted
  bool blocked = false;           // the provider was busy: tried again

  std::uint32_t next_sent = 0;
  std::uint32_t next_received = 0;
  std::deque<Partial> partial;  // from next_received on

  [[nodiscard]] bool idle() const { return head == nullptr && outstanding == 0 && control.empty(); }
  // All that it has sent is here.
  [[nodiscard]] bool said_bye() const { return bye && *bye == next_received; }
};

}  // namespace dlobd::transport::fabric
