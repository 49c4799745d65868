// The words of every message, without the machinery of endpoints: for codecs and their fuzz
// targets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace dlobd::transport {

// What an arrival is about. The exchanges name theirs (exchange/kinds.h); transports only sort by
// it.
using Kind = std::uint8_t;
inline constexpr std::size_t kMaxKinds = 16;
inline constexpr std::size_t kMaxMessageBytes = 64 * 1024;

// Registered memory. All ranks give the same id to regions that play the same part.
using RegionId = std::uint16_t;
using RegionSizes = std::map<RegionId, std::uint64_t>;

// How a message is counted. data: the payload of the exchange's steps; control: requests, look-ups,
// launches, tokens; apart: what evaluation, snapshots and barriers move.
enum class Traffic : std::uint8_t { data, control, apart };
inline constexpr std::size_t kTrafficClasses = 3;

struct Notification {
  Kind kind = 0;
  std::uint32_t index = 0;
};

}  // namespace dlobd::transport
