// The exchange of TensorFlow 2's MultiWorkerMirroredStrategy: a ring all-reduce in which the
// receiver asks for every chunk. tf_ring.cpp opens with the picture.
//
// A step once begun must be ended by finish_step(), also after an error elsewhere: it returns as
// soon as the endpoint has failed, or, if gradients are missing, when the packs under way are done.
// Only then may the exchange go. Errors: the endpoint's, at finish_step(); corrupt_data for a
// message that is not due; cancelled when the backward pass ended early. On the loop's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "exchange/exchange.h"
#include "exchange/pending.h"
#include "exchange/tf_sections.h"
#include "exchange/wire_buffer.h"

namespace dlobd::exchange {

class TfRing final : public Exchange {
 public:
  TfRing(Context context, TfRingOptions options);

  base::Task<base::Result<void>> begin_step(std::uint64_t step) override;
  void gradient_ready(std::size_t view) override;
  base::Task<base::Result<StepOutcome>> finish_step() override;
  // Every rank holds the whole parameters and the whole momentum at all times; what ranks owe, in
  // 16 bits, is gathered.
  base::Task<base::Result<void>> settle(Settle what) override;
  [[nodiscard]] std::span<float> residuals() const override;

 private:
  enum Pass : std::uint32_t { reduce, gather };

  struct Pack {
    compute::Range range;
    TfSections sections;
    std::size_t first_hop = 0;       // its hops' place in hops_
    std::size_t requests_due = 0;    // in a step, from the successor
    std::size_t requests_taken = 0;  // of the step in hand
    bool started = false;            // likewise
  };
  // A section in one pass, as this rank sees it.
  struct Hop {
    Hop(base::Loop& loop, std::size_t pack, compute::Range range)
        : pack(pack), range(range), requested(loop), answered(loop) {}
    std::size_t pack;
    compute::Range range;   // of the arena
    base::Event requested;  // by the successor
    base::Event answered;   // by the predecessor
  };

  [[nodiscard]] bool receives(int chunk, Pass pass) const;
  [[nodiscard]] bool sends(int chunk, Pass pass) const;
  [[nodiscard]] std::size_t hop_of(const Pack& pack, int section, Pass pass) const;

  void start(std::size_t pack);
  base::Task<base::Result<void>> run_section(std::size_t pack, int section);
  base::Task<base::Result<void>> reduce_section(std::size_t pack, int section);
  base::Task<base::Result<void>> gather_section(std::size_t pack, int section);
  base::Task<base::Result<void>> receive(std::size_t hop, int section, Pass pass);
  base::Task<base::Result<void>> answer(std::size_t hop, Pass pass,
                                        std::span<const std::byte> elements);
  void divide(compute::Range range);
  base::Task<base::Result<void>> take_messages();
  base::Result<void> accept_request(const transport::Arrival& arrival);
  bool mark(const TfRequest& request);  // false: it is not due
  base::Result<void> accept_answer(const transport::Arrival& arrival);
  base::Failure give_up(const base::Error& error);

  Context context_;
  int rank_;
  int ranks_;
  int successor_;
  int predecessor_;
  PendingBuckets pending_;
  std::vector<Pack> packs_;
  std::deque<Hop> hops_;
  WireBuffer buffer_;  // of the gradients; scratch: partial sums, where they belong

  // Of the step in hand.
  std::uint64_t step_ = 0;
  std::size_t messages_open_ = 0;  // requests and answers that started packs wait for
  std::size_t sections_running_ = 0;
  bool taking_ = false;  // take_messages() runs
  bool finishing_ = false;
  std::vector<TfRequest> early_;  // of the next step
  std::optional<base::Error> error_;
  base::TaskGroup tasks_;
  std::optional<metrics::Phases::Transfer> overlapped_;
};

}  // namespace dlobd::exchange
