#include "exchange/bigdl_protocol.h"

#include <array>

#include "base/binary.h"
#include "exchange/not_due.h"
#include "exchange/slices.h"

namespace dlobd::exchange::bigdl {
namespace {

// Memory for `elements` of two bytes, in whole floats.
compute::ParameterArena make_block_buffer(const char* name, std::size_t elements,
                                          compute::Backing backing) {
  return make_buffer(name, (elements + 1) / 2, backing);
}

std::span<std::uint16_t> halves(const compute::ParameterArena& memory, std::size_t begin,
                                std::size_t elements) {
  auto* first = reinterpret_cast<std::uint16_t*>(memory.parameters().data());
  return {first + begin, elements};
}

using ControlBytes = std::array<std::byte, kControlBytes>;

bool has_amount(Say say) {
  return say == Say::launch || say == Say::result || say == Say::last_result;
}

// Five words: say, sort, slice, from, value. An amount lies where slice and from do.
ControlBytes encode(const Control& control) {
  const std::array<std::int32_t, 5> words = {
      static_cast<std::int32_t>(control.say), static_cast<std::int32_t>(control.block.sort),
      control.block.slice, control.block.from, control.value};
  ControlBytes bytes;
  std::byte* at = bytes.data();
  for (const std::int32_t word : words) {
    base::store(at, word);
    at += sizeof word;
  }
  if (has_amount(control.say)) base::store(bytes.data() + 2 * sizeof words[0], control.amount);
  return bytes;
}

}  // namespace

base::Result<Control> read_control(const transport::Arrival& arrival) {
  base::BinaryReader reader(arrival.payload);
  const auto say = reader.integer<std::uint32_t>();
  const auto sort = reader.integer<std::uint32_t>();
  Control control;
  if (has_amount(static_cast<Say>(say))) {
    control.amount = reader.integer<std::int64_t>();
  } else {
    control.block.slice = reader.integer<std::int32_t>();
    control.block.from = reader.integer<std::int32_t>();
  }
  control.value = reader.integer<std::int32_t>();
  if (!reader.good() || reader.left() > 0 || say > static_cast<std::uint32_t>(Say::farewell) ||
      sort > static_cast<std::uint32_t>(Sort::gradients)) {
    return not_due(arrival, "words that nobody says");
  }
  control.say = static_cast<Say>(say);
  control.block.sort = static_cast<Sort>(sort);
  return control;
}

base::Task<base::Result<void>> say(transport::Endpoint& endpoint, int peer, transport::Kind kind,
                                   std::uint32_t index, Control control,
                                   transport::Traffic traffic) {
  const ControlBytes bytes = encode(control);
  const transport::Notification notification{kind, index};
  transport::Message message(peer, notification, bytes, traffic);
  auto sent = co_await endpoint.send(message);
  co_return sent;
}

BlockMemory::BlockMemory(const Context& context)
    : rank_(context.endpoint.rank()),
      workers_(context.layout.workers),
      elements_(context.arena.size()),
      slot_elements_(front_loaded_slice(elements_, workers_, 0).size()),
      blocks_(
          make_block_buffer("blocks", slice_of(rank_).size() + elements_, context.arena.backing())),
      slots_(make_block_buffer("slots", slot_elements_ * static_cast<std::size_t>(workers_),
                               context.arena.backing())) {
  context.endpoint.register_memory(region::blocks, std::as_writable_bytes(blocks_.parameters()));
  context.endpoint.register_memory(region::slots, std::as_writable_bytes(slots_.parameters()));
}

compute::Range BlockMemory::slice_of(int rank) const {
  return front_loaded_slice(elements_, workers_, rank);
}

std::vector<compute::Range> BlockMemory::slices() const {
  std::vector<compute::Range> slices;
  for (int rank = 0; rank < workers_; ++rank) slices.push_back(slice_of(rank));
  return slices;
}

// The block of weights first, then the gradients of all slices.
std::span<std::uint16_t> BlockMemory::own(Block block) const {
  const std::size_t weights = slice_of(rank_).size();
  if (block.sort == Sort::weights) return halves(blocks_, 0, weights);
  const compute::Range range = slice_of(block.slice);
  return halves(blocks_, weights + range.begin, range.size());
}

std::span<std::uint16_t> BlockMemory::slot(int peer, std::size_t elements) const {
  return halves(slots_, static_cast<std::size_t>(peer) * slot_elements_, elements);
}

std::uint64_t BlockMemory::slot_offset_bytes(int peer) const {
  return static_cast<std::uint64_t>(peer) * slot_elements_ * sizeof(std::uint16_t);
}

}  // namespace dlobd::exchange::bigdl
