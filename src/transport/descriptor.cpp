#include "transport/descriptor.h"

#include <fmt/format.h>

#include "base/binary.h"

namespace dlobd::transport {

namespace {

constexpr std::uint32_t kMagic = 0x4445534fU;  // "OSED" on the wire
constexpr std::uint8_t kVersion = 1;

}  // namespace

std::vector<std::byte> encode(const Descriptor& descriptor) {
  base::BinaryWriter writer;
  writer.integer(kMagic);
  writer.integer(kVersion);
  writer.text<std::uint16_t>(descriptor.address);
  writer.integer(descriptor.port);
  writer.integer(static_cast<std::uint32_t>(descriptor.regions.size()));
  for (const auto& [id, size] : descriptor.regions) {
    writer.integer(id);
    writer.integer(size);
  }
  return writer.take();
}

base::Result<Descriptor> decode_descriptor(std::span<const std::byte> blob) {
  const auto corrupt = [&blob](std::string_view what) {
    return base::fail(base::ErrorKind::corrupt_data,
                      fmt::format("descriptor of an endpoint {}: {} bytes", what, blob.size()));
  };
  base::BinaryReader reader(blob);
  if (reader.integer<std::uint32_t>() != kMagic) return corrupt("does not begin like one");
  if (reader.integer<std::uint8_t>() != kVersion) return corrupt("has another version");
  Descriptor descriptor;
  descriptor.address = reader.text<std::uint16_t>();
  descriptor.port = reader.integer<std::uint16_t>();
  const auto regions = reader.integer<std::uint32_t>();
  for (std::uint32_t i = 0; i < regions && reader.good(); ++i) {
    const auto id = reader.integer<RegionId>();
    const auto size = reader.integer<std::uint64_t>();
    if (!descriptor.regions.emplace(id, size).second) return corrupt("names a region twice");
  }
  if (!reader.good()) return corrupt("is cut short");
  if (reader.left() > 0) return corrupt("has bytes too many");
  return descriptor;
}

}  // namespace dlobd::transport
