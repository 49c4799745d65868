#include "exchange/bigdl_driver.h"

#include <algorithm>

#include "exchange/not_due.h"

namespace dlobd::exchange {

using bigdl::Control;
using bigdl::Say;
using transport::Arrival;
using transport::Traffic;

BigDlDriver::BigDlDriver(Context context, BigDlDrop drop)
    : endpoint_(context.endpoint),
      workers_(context.layout.workers),
      sends_(context.endpoint.loop()),
      drop_(drop, workers_),
      heard_(static_cast<std::size_t>(workers_)) {}

base::Task<base::Result<void>> BigDlDriver::serve(std::uint64_t first_step) {
  auto done = co_await run_jobs(first_step);
  Control farewell;
  farewell.say = Say::farewell;
  if (done) say_to_all(bigdl::kind::request, farewell, Traffic::apart);
  auto sent = co_await sends_.join();
  DLOBD_CO_CHECK(done);
  co_return sent;
}

base::Task<base::Result<void>> BigDlDriver::run_jobs(std::uint64_t first_step) {
  step_ = first_step;
  auto met = co_await hear_all(0);
  DLOBD_CO_CHECK(met);
  bool go_on = *met;
  for (; go_on; ++step_) {
    for (int job = 1; job <= 2; ++job) {
      Control launch;
      launch.say = Say::launch;
      launch.value = job;
      launch.amount = amount_of(job);
      say_to_all(bigdl::kind::launch, launch, Traffic::control);
      auto done = co_await hear_all(job);
      DLOBD_CO_CHECK(done);
      go_on = *done;
    }
  }
  co_return base::Result<void>();
}

// What goes with the launch of a job: how long a pass may take, or how many were over in time.
std::int64_t BigDlDriver::amount_of(int job) {
  if (job == 2) return drop_.end_iteration();
  const auto limit = drop_.limit();
  return limit ? limit->count() : bigdl::kNoTime;
}

void BigDlDriver::say_to_all(transport::Kind kind, const Control& control, Traffic traffic) {
  for (int worker = 0; worker < workers_; ++worker) {
    sends_.spawn(
        bigdl::say(endpoint_, worker, kind, static_cast<std::uint32_t>(step_), control, traffic));
  }
}

base::Task<base::Result<bool>> BigDlDriver::hear_all(int job) {
  job_ = job;
  missing_ = workers_;
  leaving_ = 0;
  std::fill(heard_.begin(), heard_.end(), false);
  while (missing_ > 0) {
    auto arrival = co_await endpoint_.next(bigdl::kind::to_driver);
    DLOBD_CO_CHECK(arrival);
    auto heard = hear(*arrival);
    DLOBD_CO_CHECK(heard);
  }
  co_return leaving_ == 0;
}

base::Result<void> BigDlDriver::hear(const Arrival& arrival) {
  DLOBD_TRY(control, bigdl::read_control(arrival));
  switch (control.say) {
    case Say::registration: return enrol(arrival, control);
    case Say::look_up: return answer(arrival, control.block);
    case Say::result:
    case Say::last_result: return take_result(arrival, control);
    case Say::leave:
      if (job_ == 0) return check_in(arrival, true);
      break;
    default: break;
  }
  return not_due(arrival, "words that are not the driver's to hear");
}

base::Result<void> BigDlDriver::enrol(const Arrival& arrival, const Control& control) {
  const bool weights = control.block.sort == bigdl::Sort::weights;
  if (weights != (job_ == 0) || !locations_.emplace(control.block, arrival.source).second) {
    return not_due(arrival, "a registration");
  }
  if (weights) return check_in(arrival, false);
  return {};
}

base::Result<void> BigDlDriver::answer(const Arrival& arrival, const bigdl::Block& block) {
  const auto found = locations_.find(block);
  if (found == locations_.end()) {
    return not_due(arrival, "a question for a block that nobody has registered");
  }
  Control control;
  control.say = Say::location;
  control.block = block;
  control.value = found->second;
  sends_.spawn(bigdl::say(endpoint_, arrival.source, bigdl::kind::answer, arrival.index, control));
  return {};
}

base::Result<void> BigDlDriver::take_result(const Arrival& arrival, const Control& control) {
  const bool last = control.say == Say::last_result;
  const bool cut_off = control.amount == bigdl::kNoTime;
  if (job_ == 0 || control.value != job_ || arrival.index != static_cast<std::uint32_t>(step_) ||
      (job_ == 1 && last) || control.amount < bigdl::kNoTime || (cut_off && !drop_.limit())) {
    return not_due(arrival, "a result");
  }
  DLOBD_TRY_VOID(heard, check_in(arrival, last));
  if (job_ == 1 && !cut_off) drop_.finish(arrival.source, base::Duration(control.amount));
  return {};
}

// All workers go on, or all leave.
base::Result<void> BigDlDriver::check_in(const Arrival& arrival, bool leaving) {
  std::vector<bool>::reference heard = heard_.at(static_cast<std::size_t>(arrival.source));
  const int before = workers_ - missing_;
  if (heard || (before > 0 && leaving != (leaving_ > 0))) {
    return not_due(arrival, leaving ? "a leave" : "a result");
  }
  heard = true;
  --missing_;
  if (leaving) ++leaving_;
  return {};
}

}  // namespace dlobd::exchange
