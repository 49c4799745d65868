// BigDL's driver: launches two jobs per step, each one task on every worker, waits for all results,
// and answers where a block is. It says how long a pass may take, and counts those that were over
// in time. bigdl_blocks.cpp opens with the picture. It computes nothing and moves no data.
//
// Errors: the endpoint's; corrupt_data for words that are not due, by rank. On the loop's thread.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/waiters.h"
#include "exchange/bigdl_drop.h"
#include "exchange/bigdl_protocol.h"
#include "exchange/exchange.h"
#include "exchange/service.h"

namespace dlobd::exchange {

class BigDlDriver final : public Service {
 public:
  BigDlDriver(Context context, BigDlDrop drop);

  base::Task<base::Result<void>> serve(std::uint64_t first_step) override;

 private:
  base::Task<base::Result<void>> run_jobs(std::uint64_t first_step);
  // Answers, until every worker has said what the round waits for; whether they go on.
  base::Task<base::Result<bool>> hear_all(int job);
  base::Result<void> hear(const transport::Arrival& arrival);
  base::Result<void> enrol(const transport::Arrival& arrival, const bigdl::Control& control);
  base::Result<void> answer(const transport::Arrival& arrival, const bigdl::Block& block);
  base::Result<void> take_result(const transport::Arrival& arrival, const bigdl::Control& control);
  base::Result<void> check_in(const transport::Arrival& arrival, bool leaving);
  void say_to_all(transport::Kind kind, const bigdl::Control& control, transport::Traffic traffic);
  [[nodiscard]] std::int64_t amount_of(int job);

  transport::Endpoint& endpoint_;
  int workers_;
  base::TaskGroup sends_;
  std::map<bigdl::Block, int> locations_;
  bigdl::DropRule drop_;
  // The round: 0 until all blocks of weights are known, then job 1 or 2 of the step.
  int job_ = 0;
  std::uint64_t step_ = 0;
  std::vector<bool> heard_;  // by worker
  int missing_ = 0;
  int leaving_ = 0;
};

}  // namespace dlobd::exchange
