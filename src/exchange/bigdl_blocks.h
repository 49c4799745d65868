// BigDL's exchange on a worker: every rank owns one slice of the parameters in float32, publishes
// it as a block of 16-bit elements, pulls the others' blocks of weights before the forward pass and
// their blocks of gradients after the backward pass, when the driver has launched the task.
// bigdl_blocks.cpp opens with the picture.
//
// Errors: the endpoint's; corrupt_data for a message that is not due. On the loop's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exchange/bigdl_owner.h"
#include "exchange/bigdl_protocol.h"
#include "exchange/bigdl_transfer.h"
#include "exchange/exchange.h"

namespace dlobd::exchange {

class BigDlBlocks final : public Exchange {
 public:
  BigDlBlocks(Context context, BigDlDefects defects);

  base::Task<base::Result<void>> begin_step(std::uint64_t step) override;
  [[nodiscard]] std::optional<base::Time> pass_deadline() const override;
  void begin_pass() override;
  void gradient_ready(std::size_t) override {}  // nothing moves during the backward pass
  void cut_off() override;
  base::Task<base::Result<StepOutcome>> finish_step() override;
  // Rank 0 holds the float32 parameters afterwards; the others keep what they have.
  base::Task<base::Result<void>> settle(Settle what) override { return owner_.settle(what); }
  base::Task<base::Result<void>> leave() override;
  [[nodiscard]] std::vector<std::string> remarks() const override;

 private:
  base::Task<base::Result<void>> begin_job();
  base::Task<base::Result<void>> publish_weights_first();
  // What the launch says besides (bigdl::Say).
  base::Task<base::Result<std::int64_t>> launched(int job);
  base::Task<base::Result<void>> tell_result(int job, bool last);
  base::Task<base::Result<void>> get_weights();
  base::Task<base::Result<void>> put_gradients();
  base::Task<base::Result<void>> get_gradients();
  void use_weights(int owner);
  [[nodiscard]] bigdl::Block own_block(bigdl::Sort sort, int slice) const;
  [[nodiscard]] std::span<float> part(std::span<float> whole, int slice) const;

  Context context_;
  int rank_;
  int workers_;
  int driver_;
  bigdl::BlockMemory memory_;
  bigdl::BlockFetcher fetcher_;
  bigdl::BlockServer server_;
  bigdl::SliceOwner owner_;
  std::uint64_t step_ = 0;
  base::Time launched_at_{0};
  std::optional<base::Duration> limit_;  // of the pass, from then on
  base::Duration getting_weights_{0};
  base::Time pass_began_{0};
  bool cut_off_ = false;       // the pass of this step
  bool arena_in_use_ = false;  // maybe, by a pass that was cut off
  std::uint64_t steps_ = 0;
  std::uint64_t cut_offs_ = 0;
  std::uint64_t discards_ = 0;  // of updates
  bool result_due_ = false;     // of the second job: it goes with the next word to the driver
  bool registered_ = false;     // the blocks of gradients
};

}  // namespace dlobd::exchange
