#include "transport/descriptor.h"

#include <fmt/format.h>

#include "transport/bytes.h"

namespace dlobd::transport {

namespace {

constexpr std::uint32_t kMagic = 0x4445534fU;  // "OSED" on the wire
constexpr std::uint8_t kVersion = 1;

}  // namespace

std::vector<std::byte> encode(const Descriptor& descriptor) {
  Writer writer;
  writer.put(kMagic);
  writer.put(kVersion);
  writer.put(std::string_view(descriptor.address));
  writer.put(descriptor.port);
  writer.put(static_cast<std::uint32_t>(descriptor.regions.size()));
  for (const auto& [id, size] : descriptor.regions) {
    writer.put(id);
    writer.put(size);
  }
  return writer.take();
}

base::Result<Descriptor> decode_descriptor(std::span<const std::byte> blob) {
  const auto corrupt = [&blob](std::string_view what) {
    return base::fail(base::ErrorKind::corrupt_data,
                      fmt::format("descriptor of an endpoint {}: {} bytes", what, blob.size()));
  };
  Reader reader(blob);
  if (reader.get<std::uint32_t>() != kMagic) return corrupt("does not begin like one");
  if (reader.get<std::uint8_t>() != kVersion) return corrupt("has another version");
  Descriptor descriptor;
  descriptor.address = reader.get_text();
  descriptor.port = reader.get<std::uint16_t>();
  const auto regions = reader.get<std::uint32_t>();
  for (std::uint32_t i = 0; i < regions && reader.good(); ++i) {
    const auto id = reader.get<RegionId>();
    const auto size = reader.get<std::uint64_t>();
    if (!descriptor.regions.emplace(id, size).second) return corrupt("names a region twice");
  }
  if (!reader.good()) return corrupt("is cut short");
  if (!reader.at_end()) return corrupt("has bytes too many");
  return descriptor;
}

}  // namespace dlobd::transport
