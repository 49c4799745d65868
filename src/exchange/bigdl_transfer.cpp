#include "exchange/bigdl_transfer.h"

#include <utility>

#include "exchange/not_due.h"

namespace dlobd::exchange::bigdl {

using transport::Traffic;

BlockFetcher::BlockFetcher(const Context& context, const BlockMemory& memory, bool look_up_each)
    : endpoint_(context.endpoint),
      memory_(memory),
      rank_(context.endpoint.rank()),
      workers_(context.layout.workers),
      driver_(context.layout.workers),
      look_up_each_(look_up_each),
      stages_(static_cast<std::size_t>(workers_), Stage::none),
      locations_(2 * stages_.size(), -1) {}

Block BlockFetcher::block_from(Sort sort, int from) const {
  Block block;
  block.sort = sort;
  block.slice = sort == Sort::weights ? from : rank_;
  block.from = from;
  return block;
}

int& BlockFetcher::location(Sort sort, int from) {
  const int at = static_cast<int>(sort) * workers_ + from;
  return locations_.at(static_cast<std::size_t>(at));
}

base::Task<base::Result<void>> BlockFetcher::fetch_all(Sort sort, Here here) {
  base::TaskGroup sends(endpoint_.loop());
  auto fetched = co_await fetch_some_at_once(sort, here, sends);
  auto sent = co_await sends.join();
  DLOBD_CO_CHECK(fetched);
  co_return sent;
}

base::Task<base::Result<void>> BlockFetcher::fetch_some_at_once(Sort sort, const Here& here,
                                                                base::TaskGroup& sends) {
  int next = 0;
  int open = 0;
  while (true) {
    for (; next < workers_ && open < kFetchesAtOnce; ++next) {
      if (next == rank_) {
        here(next);
      } else {
        begin(sort, next, sends);
        ++open;
      }
    }
    if (open == 0) co_return base::Result<void>();
    auto arrival = co_await endpoint_.next(kind::answer);
    DLOBD_CO_CHECK(arrival);
    auto from = take(sort, *arrival, sends);
    DLOBD_CO_CHECK(from);
    if (*from < 0) continue;
    here(*from);
    --open;
  }
}

void BlockFetcher::begin(Sort sort, int from, base::TaskGroup& sends) {
  if (!look_up_each_ && location(sort, from) >= 0) {
    ask_for(sort, from, sends);
    return;
  }
  stages_[static_cast<std::size_t>(from)] = Stage::looked_up;
  Control control;
  control.say = Say::look_up;
  control.block = block_from(sort, from);
  sends.spawn(say(endpoint_, driver_, kind::to_driver, static_cast<std::uint32_t>(from), control));
}

void BlockFetcher::ask_for(Sort sort, int from, base::TaskGroup& sends) {
  stages_[static_cast<std::size_t>(from)] = Stage::asked_for;
  Control control;
  control.say = Say::fetch;
  control.block = block_from(sort, from);
  sends.spawn(say(endpoint_, location(sort, from), kind::request, static_cast<std::uint32_t>(from),
                  control));
}

base::Result<int> BlockFetcher::take(Sort sort, const transport::Arrival& arrival,
                                     base::TaskGroup& sends) {
  if (arrival.index >= stages_.size()) return not_due(arrival, "an answer");
  const int from = static_cast<int>(arrival.index);
  const Block block = block_from(sort, from);
  Stage& stage = stages_[arrival.index];
  if (arrival.source == driver_) {
    DLOBD_TRY(control, read_control(arrival));
    // A worker holds what it has made itself: only it can have registered the block.
    if (stage != Stage::looked_up || control.say != Say::location || control.block != block ||
        control.value != from) {
      return not_due(arrival, "a location");
    }
    location(sort, from) = control.value;
    ask_for(sort, from, sends);
    return -1;
  }
  const std::uint64_t bytes = memory_.slice_of(block.slice).size() * sizeof(std::uint16_t);
  if (stage != Stage::asked_for || arrival.source != from || arrival.bytes != bytes) {
    return not_due(arrival, "a block");
  }
  stage = Stage::none;
  return from;
}

BlockServer::BlockServer(const Context& context, const BlockMemory& memory)
    : endpoint_(context.endpoint),
      memory_(memory),
      rank_(context.endpoint.rank()),
      driver_(context.layout.workers),
      changed_(context.endpoint.loop()) {}

void BlockServer::start() {
  if (started_) return;
  started_ = true;
  running_ = true;
  endpoint_.loop().spawn(run());
}

base::Task<void> BlockServer::stopped() {
  while (running_) co_await changed_.wait();
}

// An error here ends the job as one of the step's own would.
base::Task<void> BlockServer::run() {
  base::TaskGroup writes(endpoint_.loop());
  auto answered = co_await answer_requests(writes);
  if (!answered) endpoint_.fail(answered.error());
  auto written = co_await writes.join();
  if (!written) endpoint_.fail(written.error());
  running_ = false;
  changed_.wake_all();
}

base::Task<base::Result<void>> BlockServer::answer_requests(base::TaskGroup& writes) {
  while (true) {
    auto arrival = co_await endpoint_.next(kind::request);
    DLOBD_CO_CHECK(arrival);
    auto control = read_control(*arrival);
    DLOBD_CO_CHECK(control);
    if (control->say == Say::farewell && arrival->source == driver_) {
      co_return base::Result<void>();
    }
    if (control->say != Say::fetch || !may_have(arrival->source, control->block)) {
      co_return not_due(*arrival, "a request");
    }
    const transport::Notification notification{kind::answer, static_cast<std::uint32_t>(rank_)};
    transport::Write write(arrival->source, region::slots, memory_.slot_offset_bytes(rank_),
                           std::as_bytes(memory_.own(control->block)), notification, Traffic::data);
    writes.spawn(endpoint_.write(write));
  }
}

// What is here, for the worker that it is meant for.
bool BlockServer::may_have(int peer, const Block& block) const {
  if (peer == driver_ || block.from != rank_) return false;
  return block.slice == (block.sort == Sort::weights ? rank_ : peer);
}

}  // namespace dlobd::exchange::bigdl
