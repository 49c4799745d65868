// Any bytes: decode() gives an error or a checkpoint that encodes to a file that decodes to the
// same.
#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/check.h"
#include "training/checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  (void)dlobd::training::decode(bytes);
  // Past the checksum, where random bytes would seldom come.
  std::vector<std::byte> sealed(bytes.begin(), bytes.end());
  const auto crc = static_cast<std::uint32_t>(crc32_z(0, data, size));
  sealed.resize(size + sizeof crc);
  std::memcpy(sealed.data() + size, &crc, sizeof crc);
  const auto checkpoint = dlobd::training::decode(sealed);
  if (checkpoint) {
    const auto again = dlobd::training::decode(dlobd::training::encode(*checkpoint));
    CHECK(again.has_value(), "what encode() wrote does not decode");
  }
  return 0;
}
