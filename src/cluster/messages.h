// The control frames between a hub and its members, as values and as bytes. A frame is one tag byte
// and the fields of its message: integers little-endian, strings and blobs with a 32-bit length.
// decode() checks every length against the bytes that are there before it allocates, and refuses
// unknown tags and trailing bytes, so that any bytes at all may be given to it. No coroutines here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"

namespace dlobd::cluster {

// The first message of a rank. Its layout is the same in all versions.
struct Hello {
  std::string version;
  std::string token;
  std::string configuration;  // base/settings.h
  std::int32_t rank = 0;
  std::int32_t world_size = 0;
  std::string host;
};

// Hub to member: all ranks are here.
struct Welcome {};

// Hub to member: you are not, or no longer, in a job. `rank` is the one rank to blame, or -1.
struct Refuse {
  base::ErrorKind kind = base::ErrorKind::refused;
  std::int32_t rank = -1;
  std::string reason;
};

// Member to hub, the `sequence`-th from this member, counted from 0. `what` it is that all gather.
struct Gather {
  std::uint64_t sequence = 0;
  std::string what;
  std::vector<std::byte> blob;
};

struct Gathered {
  std::uint64_t sequence = 0;
  std::vector<std::vector<std::byte>> blobs;  // by rank
};

struct Heartbeat {};

// Member to hub: what I do now. Hub to member: what rank 0 does now.
struct Phase {
  std::string phase;
};

struct Suspect {
  std::int32_t peer = 0;
  std::string reason;
};

struct Failure {
  std::string reason;
};

struct VerdictMessage {
  bool failed = false;  // the culprit said so itself
  std::int32_t culprit = 0;
  std::string phase;
  std::string reason;
};

// Member to hub: let us stop. Hub to member: how far are you?
struct StopRequest {};

// One more than the last step begun; 0 when none has.
struct StopReply {
  std::uint64_t begun = 0;
};

// The last step to run.
struct StopAt {
  std::uint64_t step = 0;
};

struct Ship {
  std::vector<std::byte> blob;
};

// Member to hub: I am done; `begun` as in StopReply.
struct Bye {
  std::uint64_t begun = 0;
};

// Hub to member: you may go.
struct ByeAll {};

// Member to hub: all-gathers and stops go on without me.
struct Aside {};

// Hub to member, in answer to a good hello: what this run is called.
struct Run {
  std::string name;
};

using Message =
    std::variant<Hello, Welcome, Refuse, Gather, Gathered, Heartbeat, Phase, Suspect, Failure,
                 VerdictMessage, StopRequest, StopReply, StopAt, Ship, Bye, ByeAll, Aside, Run>;

std::vector<std::byte> encode(const Message& message);

// corrupt_data for bytes that are no message.
base::Result<Message> decode(std::span<const std::byte> frame);

}  // namespace dlobd::cluster
