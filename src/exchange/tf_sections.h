// How TensorFlow 2's ring cuts gradients into packs and packs into sections, and what a receiver
// says when it asks for one. Pure functions: every worker finds the same.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compute/arena.h"
#include "compute/wire_element.h"
#include "exchange/slices.h"

namespace dlobd::exchange {

struct TfRingOptions {
  bool single_pack = true;  // the defect: all gradients in one pack, so nothing starts before all
                            // are ready. Otherwise packs, each reduced when it is complete.
  std::size_t pack_bytes = 1 << 20;        // of such a pack, at least, in float32
  std::size_t most_chunk_bytes = 4 << 20;  // subdivided further while a chunk is larger, ...
  int most_subdivisions = 2;               // ... up to so many times
  std::size_t alignment_bytes = 64;        // as TensorFlow builds its Eigen
  compute::WireElement element = compute::WireElement::float32;  // wire_buffer.h
};

// A pack is closed when its gradients have so many bytes in memory.
std::size_t tf_pack_bytes(const TfRingOptions& options);
std::vector<Bucket> tf_packs(const std::vector<compute::ParameterView>& views,
                             const TfRingOptions& options);

// A pack of n elements in N * subdivisions sections of equal size: the mean size rounded up to the
// next multiple of the alignment (a whole alignment more where it is one already: TensorFlow's
// rounding). So the last sections of a small pack are short or empty. Bytes are those of the
// elements that travel, as TensorFlow cuts a tensor of that type. Section s belongs to chunk
// s / subdivisions of the ring.
struct TfSections {
  std::size_t elements = 0;
  std::size_t each = 0;
  int subdivisions = 1;
  int count = 1;

  TfSections(std::size_t elements, int ranks, const TfRingOptions& options);
  [[nodiscard]] compute::Range at(int section) const;  // within the pack
  [[nodiscard]] int chunk(int section) const { return section / subdivisions; }
};

// What a receiver asks its predecessor for.
struct TfRequest {
  static constexpr std::size_t kBytes = 24;

  std::uint64_t step = 0;
  std::uint32_t pack = 0;
  std::uint32_t pass = 0;
  std::uint32_t section = 0;
  std::uint32_t source = 0;  // who is to answer

  [[nodiscard]] std::array<std::byte, kBytes> encode() const;
  static std::optional<TfRequest> decode(std::span<const std::byte> bytes);
};

}  // namespace dlobd::exchange
