#include "exchange/tf_sections.h"

#include <algorithm>
#include <limits>

#include "base/binary.h"

namespace dlobd::exchange {

std::array<std::byte, TfRequest::kBytes> TfRequest::encode() const {
  std::array<std::byte, kBytes> bytes{};
  base::store(bytes.data(), step);
  base::store(bytes.data() + 8, pack);
  base::store(bytes.data() + 12, pass);
  base::store(bytes.data() + 16, section);
  base::store(bytes.data() + 20, source);
  return bytes;
}

std::optional<TfRequest> TfRequest::decode(std::span<const std::byte> bytes) {
  if (bytes.size() != kBytes) return std::nullopt;
  TfRequest request;
  request.step = base::load<std::uint64_t>(bytes.data());
  request.pack = base::load<std::uint32_t>(bytes.data() + 8);
  request.pass = base::load<std::uint32_t>(bytes.data() + 12);
  request.section = base::load<std::uint32_t>(bytes.data() + 16);
  request.source = base::load<std::uint32_t>(bytes.data() + 20);
  return request;
}

std::vector<Bucket> tf_packs(const std::vector<compute::ParameterView>& views,
                             const TfRingOptions& options) {
  return buckets(views, tf_pack_bytes(options));
}

TfSections::TfSections(std::size_t elements, int ranks, const TfRingOptions& options)
    : elements(elements) {
  const std::size_t element_bytes = compute::bytes_of(options.element);
  const std::size_t bytes = elements * element_bytes;
  const auto n = static_cast<std::size_t>(ranks);
  while (bytes / (n * static_cast<std::size_t>(subdivisions)) > options.most_chunk_bytes &&
         subdivisions < options.most_subdivisions) {
    ++subdivisions;
  }
  count = ranks * subdivisions;
  const auto sections = static_cast<std::size_t>(count);
  const std::size_t mean = (elements + sections - 1) / sections;
  const std::size_t aligned = options.alignment_bytes / element_bytes;
  each = aligned > 1 ? (mean / aligned + 1) * aligned : mean;
}

compute::Range TfSections::at(int section) const {
  const std::size_t begin = std::min(elements, static_cast<std::size_t>(section) * each);
  return {begin, std::min(elements, begin + each)};
}

std::size_t tf_pack_bytes(const TfRingOptions& options) {
  return options.single_pack ? std::numeric_limits<std::size_t>::max() : options.pack_bytes;
}

}  // namespace dlobd::exchange
