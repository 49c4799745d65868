// What workers and parameter servers say to each other (tf_ps.cpp has the picture), and who owns
// which variable: whole variables, dealt round-robin over the servers, each with its optimizer
// slot. What travels at once is a batch: one variable or, where small ones are packed, all the
// small ones of a server.
//
// All that a server hears comes under one kind, so that one worker's messages keep their order
// whatever they are. The index of such a message holds a word and a number.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/loop.h"
#include "base/result.h"
#include "compute/arena.h"
#include "exchange/layout.h"
#include "transport/endpoint.h"

namespace dlobd::exchange::tf_ps {

namespace kind {
inline constexpr transport::Kind to_server = 0;         // a word
inline constexpr transport::Kind weights = 1;           // index: the batch
inline constexpr transport::Kind gradient_request = 2;  // index: the batch
inline constexpr transport::Kind step_done = 3;         // index: the step; StepDone
inline constexpr transport::Kind go = 4;                // index: the step
inline constexpr transport::Kind settled_weights = 5;   // index: the variable
inline constexpr transport::Kind settled_slots = 6;     // index: the variable
inline constexpr transport::Kind together = 7;          // index: how many settlements and leaves
}  // namespace kind

namespace region {
inline constexpr transport::RegionId parameters = 0;  // of a worker
inline constexpr transport::RegionId slots = 1;       // of a worker: its optimizer's
inline constexpr transport::RegionId scratch = 2;     // of a server: gradients, by worker
inline constexpr transport::RegionId packed = 3;      // of a worker: weights of packed batches
}  // namespace region

enum class Word : std::uint8_t { run_step, request, gradient, settle, leave };

// The number may be cut: 24 bits of it are kept.
constexpr std::uint32_t kNumberMask = 0xFFFFFF;
constexpr std::uint32_t number_of(std::uint64_t value) {
  return static_cast<std::uint32_t>(value) & kNumberMask;
}
constexpr std::uint32_t index_of(Word word, std::uint64_t number) {
  return static_cast<std::uint32_t>(word) << 24 | number_of(number);
}
constexpr Word word_of(std::uint32_t index) {
  return static_cast<Word>(index >> 24);
}

// A small message whose payload is `values`.
base::Task<base::Result<void>> say(transport::Endpoint& endpoint, int peer,
                                   transport::Notification notification,
                                   std::vector<std::uint64_t> values, transport::Traffic traffic);
// Of `count` values; corrupt_data, with rank, for any other payload.
base::Result<std::vector<std::uint64_t>> values_of(const transport::Arrival& arrival,
                                                   std::size_t count);
base::Failure not_due(const transport::Arrival& arrival, std::string_view what);

// Bytes of the small messages that have a payload.
inline constexpr std::uint64_t kRunStepBytes = 8;    // the worker's local step
inline constexpr std::uint64_t kStepDoneBytes = 16;  // its next local step; staleness

struct Batch {
  int owner = 0;  // rank
  std::vector<std::size_t> views;
  std::size_t elements = 0;
  std::size_t scratch_offset = 0;  // within what its owner keeps for one worker
  std::size_t packed_offset = 0;   // of a packed batch, within a worker's region `packed`
  [[nodiscard]] bool packed() const { return views.size() > 1; }
};

class Placement {
 public:
  // Variables of fewer bytes than `pack_below_bytes` are packed.
  Placement(std::span<const compute::ParameterView> views, Layout layout,
            std::size_t pack_below_bytes = 0);

  // The rank that owns a variable.
  [[nodiscard]] int owner(std::size_t view) const {
    return layout_.workers + static_cast<int>(view % static_cast<std::size_t>(layout_.servers));
  }
  [[nodiscard]] const std::vector<std::size_t>& variables(int server) const {
    return variables_.at(static_cast<std::size_t>(server - layout_.workers));
  }
  [[nodiscard]] const std::vector<Batch>& batches() const { return batches_; }
  [[nodiscard]] std::size_t batch_of(std::size_t view) const { return batch_of_.at(view); }
  // Those of a server, by number.
  [[nodiscard]] const std::vector<std::size_t>& batches(int server) const {
    return batches_of_.at(static_cast<std::size_t>(server - layout_.workers));
  }
  // Elements of all packed batches.
  [[nodiscard]] std::size_t packed_elements() const { return packed_elements_; }
  // The servers that own something.
  [[nodiscard]] const std::vector<int>& owners() const { return owners_; }
  // Elements that a server owns, and that it keeps for each worker's gradients.
  [[nodiscard]] std::size_t owned(int server) const {
    return owned_.at(static_cast<std::size_t>(server - layout_.workers));
  }
  // Where in its owner's scratch the gradients of a batch from `worker` lie, in elements.
  [[nodiscard]] std::size_t scratch_offset(const Batch& batch, int worker) const {
    return static_cast<std::size_t>(worker) * owned(batch.owner) + batch.scratch_offset;
  }

 private:
  void add(Batch batch, std::span<const compute::ParameterView> views);

  Layout layout_;
  std::vector<std::vector<std::size_t>> variables_;
  std::vector<int> owners_;
  std::vector<std::size_t> owned_;
  std::vector<Batch> batches_;
  std::vector<std::size_t> batch_of_;                 // by view
  std::vector<std::vector<std::size_t>> batches_of_;  // by server
  std::size_t packed_elements_ = 0;
};

}  // namespace dlobd::exchange::tf_ps
