// What travels between two endpoints over libfabric, and how it is read without trust.
//
//   descriptor  before anything: address, regions with their keys, credits
//   hello       lower rank -> higher: the job's token, and the key by which to talk back; answered
//   envelope    what a write is: in `parts` one-sided operations, each with a mark
//   message     a packet of a two-sided message: part p of `parts`, kPacketPayload bytes each
//   credits     buffers that are free again; bye; gone (the sender has failed)
//   mark        remote completion data of a one-sided operation, 8 bytes or 4
//
// Parsers give corrupt_data with what was seen. No allocation but of text, no coroutines.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "transport/message.h"

namespace dlobd::transport::fabric {

enum class PacketType : std::uint8_t {
  hello = 1,
  answer = 2,
  envelope = 3,
  message = 4,
  credits = 5,
  bye = 6,
  gone = 7
};

struct Header {
  PacketType type = PacketType::gone;
  Traffic traffic = Traffic::data;
  Notification notification;
  std::uint16_t source = 0;    // rank
  std::uint16_t credits = 0;   // that the receiver gets back
  std::uint32_t sequence = 0;  // of the message between these two ranks, from 0, wrapping
  std::uint32_t part = 0;      // of a message; of an envelope 0
  std::uint32_t parts = 0;     // packets of the message; one-sided operations of the write
  std::uint64_t key = 0;       // that the receiver gave to this source
  std::uint64_t bytes = 0;     // of the whole message
  base::Time sender_ready{0};
};

inline constexpr std::size_t kHeaderBytes = 48;
inline constexpr std::size_t kPacketBytes = 4096;  // at most, header and payload
inline constexpr std::size_t kPacketPayload = kPacketBytes - kHeaderBytes;
inline constexpr int kMaxRanks = 4096;  // what a mark can name

void encode(const Header& header, std::span<std::byte, kHeaderBytes> to);
// `bytes`: header and payload; the payload is as long as the header says, else corrupt_data.
base::Result<Header> parse_header(std::span<const std::byte> bytes);
// Packets of a two-sided message of so many bytes: at least one.
inline std::uint32_t packets_of(std::uint64_t bytes) {
  if (bytes == 0) return 1;
  return static_cast<std::uint32_t>((bytes + kPacketPayload - 1) / kPacketPayload);
}

// 8 bytes: source 12 bits, kind 4, sequence 16, index 32. 4 bytes: source 12, sequence 20; kind and
// index are then the envelope's.
struct Mark {
  int source = 0;
  std::uint32_t sequence = 0;  // the low bits
  Notification notification;   // of the wide form
};
enum class MarkWidth : std::uint8_t { narrow = 4, wide = 8 };
std::uint64_t encode(const Mark& mark, MarkWidth width);
Mark decode_mark(std::uint64_t data, MarkWidth width);
// How far the message that a mark means is ahead of `next`, by the low bits of both.
std::uint32_t ahead(const Mark& mark, std::uint32_t next, MarkWidth width);

inline constexpr std::size_t kMaxTokenBytes = 64;
enum class Answer : std::uint8_t { asking = 0, welcome = 1, wrong_token = 2, wrong_rank = 3 };
std::string_view describe(Answer answer);

struct Hello {
  Answer answer = Answer::asking;
  std::uint32_t peer = 0;  // whom it means
  std::uint32_t world_size = 0;
  std::uint64_t key = 0;  // by which to talk to its sender
  std::string token;

  friend bool operator==(const Hello&, const Hello&) = default;
};
std::vector<std::byte> encode(const Hello& hello);
base::Result<Hello> parse_hello(std::span<const std::byte> bytes);

struct RemoteRegion {
  std::uint64_t bytes = 0;
  std::uint64_t address = 0;  // of its first byte, as its owner's provider counts
  std::uint64_t key = 0;

  friend bool operator==(const RemoteRegion&, const RemoteRegion&) = default;
};

struct Description {
  std::string provider;
  std::string address;  // bytes of libfabric's
  std::uint32_t credits = 0;
  MarkWidth mark_width = MarkWidth::narrow;
  std::map<RegionId, RemoteRegion> regions;

  friend bool operator==(const Description&, const Description&) = default;
};
std::vector<std::byte> encode(const Description& description);
base::Result<Description> parse_description(std::span<const std::byte> blob);

}  // namespace dlobd::transport::fabric
