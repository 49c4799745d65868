// What travels on a connection between two ranks, and how it is read without trust.
//
//   dialler -> acceptor   hello {token, rank, ...}            fixed size, both ways, once
//   acceptor -> dialler   hello {..., answer}                 welcome, or why not
//   then, both ways       frame header, payload; ...; bye
//
// A message is one frame, or, striped over several connections, one frame on each; `sequence` and
// `total_bytes` join them again. Parsers give an error for whatever is not what an honest peer
// sends: corrupt_data with what was seen. No allocation, no coroutines.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "transport/message.h"

namespace dlobd::transport::tcp {

enum class FrameType : std::uint8_t { write = 1, message = 2, bye = 3 };

struct FrameHeader {
  FrameType type = FrameType::bye;
  Traffic traffic = Traffic::data;
  Notification notification;
  RegionId region = 0;             // of a write
  std::uint64_t offset_bytes = 0;  // within the region, of this frame's payload
  std::uint64_t bytes = 0;         // of payload in this frame
  std::uint64_t total_bytes = 0;   // of the message
  std::uint64_t sequence = 0;      // of the message between these two ranks, from 0
  base::Time sender_ready{0};

  friend bool operator==(const FrameHeader& a, const FrameHeader& b) {
    return a.type == b.type && a.traffic == b.traffic &&
           a.notification.kind == b.notification.kind &&
           a.notification.index == b.notification.index && a.region == b.region &&
           a.offset_bytes == b.offset_bytes && a.bytes == b.bytes &&
           a.total_bytes == b.total_bytes && a.sequence == b.sequence &&
           a.sender_ready == b.sender_ready;
  }
};

inline constexpr std::size_t kHeaderBytes = 56;
using HeaderBytes = std::array<std::byte, kHeaderBytes>;

void encode(const FrameHeader& header, HeaderBytes& to);
base::Result<FrameHeader> parse_header(std::span<const std::byte, kHeaderBytes> bytes);
// Does the frame's payload have a place here? For regions of these sizes.
base::Result<void> check_frame(const FrameHeader& header, const RegionSizes& regions);

enum class Answer : std::uint8_t {
  asking = 0,
  welcome = 1,
  wrong_token = 2,
  wrong_rank = 3,
  duplicate = 4
};
std::string_view describe(Answer answer);

inline constexpr std::size_t kMaxTokenBytes = 64;

struct Hello {
  Answer answer = Answer::asking;
  std::uint32_t rank = 0;  // of the sender
  std::uint32_t peer = 0;  // whom it means
  std::uint32_t world_size = 0;
  std::uint32_t connection = 0;  // which of those between the two
  std::string token;             // at most kMaxTokenBytes

  friend bool operator==(const Hello&, const Hello&) = default;
};

inline constexpr std::size_t kHelloBytes = 92;
using HelloBytes = std::array<std::byte, kHelloBytes>;

HelloBytes encode(const Hello& hello);
base::Result<Hello> parse_hello(std::span<const std::byte, kHelloBytes> bytes);

}  // namespace dlobd::transport::tcp
