// TensorFlow 1's parameter servers, the server's side: it holds whole variables with their
// optimizer slots, answers requests for weights, asks for gradients and applies them. tf_ps.cpp has
// the picture of a step, tf_ps_server.cpp that of both kinds of updates.
//
// One coroutine takes what arrives, in order of arrival; that order decides everything, and the log
// keeps it for an oracle to replay. serve() ends when every worker has taken its leave.
// Errors: the endpoint's; corrupt_data for a message that is not due, which fails the endpoint. On
// the loop's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "base/waiters.h"
#include "exchange/exchange.h"
#include "exchange/service.h"
#include "exchange/tf_ps.h"
#include "exchange/tf_ps_wire.h"

namespace dlobd::exchange {

// What a server did, in its order.
struct TfPsEvent {
  enum class What {
    read,      // sent the variable's weights to the worker
    gathered,  // synchronous: the worker's gradient came; it was added or dropped
    applied,   // asynchronous: the worker's gradient; synchronous: the mean (worker -1)
    settled,   // all workers met
  };
  What what;
  int worker;
  std::size_t view;
  std::uint64_t step;  // read, gathered: the worker's; applied: that of the learning rate
};

class TfPsServer final : public Service {
 public:
  TfPsServer(Context context, TfPsOptions options);

  base::Task<base::Result<void>> serve(std::uint64_t first_step) override;
  [[nodiscard]] const std::vector<TfPsEvent>& log() const { return log_; }

 private:
  struct Worker {
    bool in_step = false;
    std::uint64_t step = 0;   // its local one
    std::size_t batches = 0;  // of gradients of this step, applied or gathered
    std::uint64_t steps_done = 0;
    std::uint64_t staleness = 0;
    std::optional<std::uint64_t> updates_at_read;  // when it first read in this step
    bool waits_for_token = false;
    bool waits_to_go = false;
    bool meets = false;  // waits for the others to settle or leave
  };
  struct Operation {
    enum class What { read, apply };
    What what;
    int worker;
  };
  // Of variables that travel together.
  struct Batch {
    int being_sent = 0;
    std::deque<Operation> waiting;   // in order of arrival
    std::uint64_t step = 0;          // synchronous: updates made
    std::vector<int> gathered;       // synchronous: whose gradients, in order of arrival
    std::vector<bool> asked, given;  // by worker, in its step
  };

  base::Result<void> handle(const transport::Arrival& arrival);
  base::Result<void> run_step(const transport::Arrival& arrival);
  base::Result<void> request(const transport::Arrival& arrival, std::size_t batch);
  base::Result<void> gradient(const transport::Arrival& arrival, std::size_t batch);
  base::Result<void> meet(const transport::Arrival& arrival, tf_ps::Word word);

  void send_weights(int worker);
  void enqueue(std::size_t batch, Operation operation);
  // Does what may be done to the batch now.
  void advance(std::size_t batch);
  void read(std::size_t batch, int worker);
  void apply_gradient(std::size_t batch, int worker);
  void gather(std::size_t batch, int worker);
  void apply_mean(std::size_t batch);
  void update(std::size_t batch, std::uint64_t step, std::span<const float> gradients);
  void end_step(int worker, std::uint64_t next);
  void give_tokens();
  void let_go();
  void settle(bool with_slots);

  base::Task<base::Result<void>> send_batch(std::size_t batch, int worker);
  // For a settlement.
  base::Task<base::Result<void>> send_settled(std::size_t view, bool slots);
  // Copies a packed batch to the worker's place.
  std::span<const float> pack(const tf_ps::Batch& batch, int worker);
  // Sends beside everything else; a failure fails the endpoint.
  void reply(base::Task<base::Result<void>> sending);
  base::Task<base::Result<void>> guarded(base::Task<base::Result<void>> sending);
  void tell(int worker, transport::Kind kind, std::uint64_t index,
            std::vector<std::uint64_t> values, transport::Traffic traffic);
  void note(TfPsEvent::What what, int worker, std::size_t batch, std::uint64_t step);

  [[nodiscard]] bool owns(std::size_t batch) const;
  [[nodiscard]] const std::vector<std::size_t>& own() const { return placement_.batches(rank_); }
  [[nodiscard]] Worker& worker(int rank) { return workers_.at(static_cast<std::size_t>(rank)); }
  [[nodiscard]] std::span<float> scratch(std::size_t batch, int worker);
  [[nodiscard]] int needed() const { return context_.layout.workers - options_.backup_workers; }
  // Synchronous: that every batch has reached.
  [[nodiscard]] std::uint64_t step_of_all() const;

  Context context_;
  TfPsOptions options_;
  tf_ps::Placement placement_;
  int rank_;
  compute::ParameterArena scratch_;
  compute::ParameterArena packed_;  // by worker: weights on their way
  std::vector<Worker> workers_;
  std::vector<Batch> batches_;       // by number; those of others stay untouched
  std::uint64_t updates_ = 0;        // asynchronous: steps of any worker that are applied
  int meeting_ = 0;                  // workers that wait
  std::uint32_t meeting_index_ = 0;  // what they said
  std::uint64_t meetings_ = 0;
  bool over_ = false;
  base::TaskGroup replies_;
  std::vector<TfPsEvent> log_;
};

}  // namespace dlobd::exchange
