// TensorFlow 1's parameter servers, the worker's side: weights are asked for variable by variable
// before the forward pass, gradients are handed over, as the servers ask for them, while the
// backward pass still runs. The servers hold variables and optimizer slots and apply the gradients
// (tf_ps_server.h). tf_ps.cpp opens with the picture.
//
// settle() is a barrier of all workers and brings variables, and slots if asked, to rank 0; the
// other workers keep the weights that they last read. leave() is a barrier too.
// A step once begun must be ended by finish_step(), also after an error elsewhere.
// Errors: the endpoint's; corrupt_data for a message that is not due; cancelled when the backward
// pass ended early. On the loop's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/waiters.h"
#include "exchange/exchange.h"
#include "exchange/tf_ps_wire.h"

namespace dlobd::exchange {

struct TfPsOptions {
  enum class Updates {
    asynchronous,  // each gradient is applied when it arrives
    synchronous,   // the mean of all, or all but the backup workers'
  };
  Updates updates = Updates::asynchronous;
  int backup_workers = 0;                      // synchronous: so many gradients are not waited for
  std::optional<std::uint64_t> max_staleness;  // asynchronous: steps ahead of the slowest worker
  bool arrival_order = true;  // synchronous, a defect: gradients are added as they arrive
  // Of our own design: variables of fewer bytes share a message (0: each has its own), and senders
  // do not wait to be asked.
  std::size_t pack_below_bytes = 0;
  bool requests = true;
  bool keep_log = false;  // servers remember the order of all that they did (for tests)

  [[nodiscard]] bool synchronous() const { return updates == Updates::synchronous; }
};

class TfPs final : public Exchange {
 public:
  TfPs(Context context, TfPsOptions options);

  base::Task<base::Result<void>> begin_step(std::uint64_t step) override;
  void gradient_ready(std::size_t view) override;
  base::Task<base::Result<StepOutcome>> finish_step() override;
  base::Task<base::Result<void>> settle(Settle what) override;
  base::Task<base::Result<void>> leave() override;
  [[nodiscard]] std::uint64_t staleness() const override { return staleness_; }

 private:
  struct Batch {
    bool asked = false;       // by its owner, for this step's gradients; or nobody asks
    std::size_t missing = 0;  // gradients
  };

  base::Task<base::Result<void>> start_servers(std::span<const int> servers);
  base::Task<base::Result<void>> await_go();
  base::Task<base::Result<void>> pull_weights();
  base::Task<base::Result<void>> receive_weights();
  void unpack(const tf_ps::Batch& batch);
  void pack(const tf_ps::Batch& batch);
  // Beside the backward pass.
  base::Task<base::Result<void>> hear_requests();
  void push_if_due(std::size_t batch);
  base::Task<base::Result<void>> push(std::size_t batch);
  base::Task<base::Result<void>> await_step_done();
  // Settled ones: each once, from its owner, in full.
  base::Task<base::Result<void>> receive_variables(transport::Kind kind, const char* what);
  // Every server hears `word` and answers when it has heard it from all workers.
  base::Task<base::Result<void>> meet(tf_ps::Word word, std::uint64_t number, bool receives_slots);
  base::Task<base::Result<void>> await_together();

  Context context_;
  TfPsOptions options_;
  tf_ps::Placement placement_;
  int rank_;
  compute::ParameterArena packed_;  // weights as they come; its gradients() as they go
  std::vector<Batch> batches_;
  std::size_t unready_ = 0;  // gradients
  base::TaskGroup beside_;   // the backward pass
  std::size_t pushing_ = 0;
  std::optional<metrics::Phases::Transfer> overlapped_;
  bool open_ = false;  // a step
  bool finishing_ = false;
  std::optional<std::uint64_t> next_local_step_;
  std::uint64_t local_step_ = 0;  // tags this step's gradients
  std::uint64_t staleness_ = 0;
  std::uint64_t meetings_ = 0;
};

}  // namespace dlobd::exchange
