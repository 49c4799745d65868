// A pack of n elements on N ranks in a ring, rank r receiving from r-1 only. The pack is cut into
// N chunks of `subdivisions` sections each; every section goes round by itself, all at once:
//
//   REDUCE  r = c       has section s of chunk c as it is
//           r = c+1 ..  asks r-1 for it, adds its own:  g_c + g_(c+1) + ... + g_(c-1)
//           r = c-1     has the sum, and divides it by N
//   GATHER  r = c ..    asks r-1 for the finished section, up to r = c-2
//
//   request   (control, 24 bytes)  step, pack, pass, section, source
//   answer    (data)               a write, when the section is there: in REDUCE into scratch
//                                  memory, in GATHER straight into place
//
//   16 bits: every rank rounds each element once, into a buffer of its own, and owes the error: a
//            partial sum, or, whoever is last, the whole sum, which it keeps as rounded. Sums go
//            round undivided, and each rank divides what it decodes.
//
//   per rank: 2(N-1) subdivisions answers out and in, 8n(N-1)/N bytes either way where the sections
//   are equal, half of that in 16 bits; a request for each. Empty sections do not travel.
//
// Why a write never hits memory in use: it was asked for, by the rank that owns the memory, and
// each section's steps follow one another.
//   scratch   a section has its own place there. It is asked for once a step, after the step before
//             has added it.
//   data      GATHER asks only when this rank's own write of its partial sum has been handed over.
//   sources   a write of REDUCE is over before GATHER begins; one of GATHER before finish_step()
//             returns. The backward pass that still runs writes other packs' gradients only.
// In 16 bits the same holds of the buffer from which elements are sent and into which they land.
//
// Packs that are complete run side by side. A fast successor may ask for a pack that is not
// complete here, or in the next step, which has not begun here: the request is kept until it is
// due. (One step ahead at most: the step after that needs this rank's answers.) Answers are never
// early: this rank has asked for them.
#include "exchange/tf_ring.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "exchange/kinds.h"
#include "exchange/not_due.h"

namespace dlobd::exchange {
namespace {

using transport::Notification;
using transport::Traffic;

constexpr transport::Kind kMessage = 0;
constexpr std::uint32_t kRequest = 0xffffffff;  // the index of a request; an answer's is its hop

}  // namespace

TfRing::TfRing(Context context, TfRingOptions options)
    : context_(context),
      rank_(context.endpoint.rank()),
      ranks_(context.layout.workers),
      successor_(wrap(rank_ + 1, ranks_)),
      predecessor_(wrap(rank_ - 1, ranks_)),
      pending_(context.arena.views(), tf_pack_bytes(options)),
      buffer_(context.endpoint, context.kernels, options.element, context.arena.gradients(),
              ranks_ > 1 ? context.arena.size() : 0, context.arena.backing()),
      tasks_(context.endpoint.loop()) {
  for (const Bucket& bucket : pending_.buckets()) {
    Pack pack{bucket.range, TfSections(bucket.range.size(), ranks_, options)};
    pack.first_hop = hops_.size();
    for (int section = 0; section < pack.sections.count; ++section) {
      const compute::Range within = pack.sections.at(section);
      const compute::Range range{bucket.range.begin + within.begin,
                                 bucket.range.begin + within.end};
      for (const Pass pass : {reduce, gather}) {
        hops_.emplace_back(context_.endpoint.loop(), packs_.size(), range);
        if (range.size() > 0 && sends(pack.sections.chunk(section), pass)) ++pack.requests_due;
      }
    }
    packs_.push_back(pack);
  }
}

// In REDUCE chunk c begins at rank c and ends at c-1; in GATHER it begins there and ends at c-2.
bool TfRing::receives(int chunk, Pass pass) const {
  return rank_ != wrap(chunk - static_cast<int>(pass), ranks_);
}
bool TfRing::sends(int chunk, Pass pass) const {
  return rank_ != wrap(chunk - static_cast<int>(pass) - 1, ranks_);
}

std::size_t TfRing::hop_of(const Pack& pack, int section, Pass pass) const {
  return pack.first_hop + static_cast<std::size_t>(section) * 2 + pass;
}

base::Task<base::Result<void>> TfRing::begin_step(std::uint64_t step) {
  CHECK(messages_open_ == 0, "begin_step before the last was finished");
  step_ = step;
  pending_.begin();
  finishing_ = false;
  for (Pack& pack : packs_) {
    pack.started = false;
    pack.requests_taken = 0;
  }
  for (Hop& hop : hops_) {
    hop.requested.reset();
    hop.answered.reset();
  }
  for (const TfRequest& request : std::exchange(early_, {})) {
    if (mark(request)) continue;
    co_return base::fail(
        base::ErrorKind::corrupt_data,
        fmt::format("a peer asks for what is not due: rank {}, early in step {}", successor_, step),
        successor_);
  }
  co_return base::Result<void>();
}

void TfRing::gradient_ready(std::size_t view) {
  const auto complete = pending_.ready(view);
  if (complete && ranks_ > 1) start(*complete);
}

void TfRing::start(std::size_t index) {
  Pack& pack = packs_[index];
  pack.started = true;
  messages_open_ += pack.requests_due - pack.requests_taken;
  if (!overlapped_ && !finishing_) overlapped_.emplace(context_.phases);
  for (int section = 0; section < pack.sections.count; ++section) {
    if (pack.sections.at(section).size() == 0) continue;
    for (const Pass pass : {reduce, gather}) {
      if (receives(pack.sections.chunk(section), pass)) ++messages_open_;
    }
    ++sections_running_;
    tasks_.spawn(run_section(index, section));
  }
  if (taking_) return;
  taking_ = true;
  tasks_.spawn(take_messages());
}

base::Task<base::Result<StepOutcome>> TfRing::finish_step() {
  const auto scope = context_.phases.enter(metrics::Phase::exchange);
  overlapped_.reset();
  finishing_ = true;
  auto done = co_await tasks_.join();
  DLOBD_CO_CHECK(done);
  if (context_.endpoint.error()) co_return base::fail(*context_.endpoint.error());
  if (pending_.missing() > 0) co_return base::fail(pending_.ended_early());
  co_return StepOutcome::gradients_averaged;
}

base::Task<base::Result<void>> TfRing::settle(Settle what) {
  base::Result<void> settled;
  if (what == Settle::parameters_and_optimizer && buffer_.rounds()) {
    settled = co_await buffer_.residuals()->gather();
  }
  co_return settled;
}

std::span<float> TfRing::residuals() const {
  return buffer_.all_residuals();
}

base::Task<base::Result<void>> TfRing::run_section(std::size_t pack, int section) {
  auto done = co_await reduce_section(pack, section);
  if (done) done = co_await gather_section(pack, section);
  if (--sections_running_ == 0) overlapped_.reset();
  if (!done) co_return give_up(done.error());
  co_return done;
}

base::Task<base::Result<void>> TfRing::reduce_section(std::size_t pack, int section) {
  const int chunk = packs_[pack].sections.chunk(section);
  const std::size_t hop = hop_of(packs_[pack], section, reduce);
  const compute::Range range = hops_[hop].range;
  buffer_.take_what_is_owed(range);
  if (receives(chunk, reduce)) {
    auto received = co_await receive(hop, section, reduce);
    DLOBD_CO_CHECK(received);
    buffer_.add(range, range.begin);
  }
  const auto elements = buffer_.outgoing(range);
  if (!sends(chunk, reduce)) {
    divide(range);
    co_return base::Result<void>();
  }
  auto sent = co_await answer(hop, reduce, elements);
  co_return sent;
}

base::Task<base::Result<void>> TfRing::gather_section(std::size_t pack, int section) {
  const int chunk = packs_[pack].sections.chunk(section);
  const std::size_t hop = hop_of(packs_[pack], section, gather);
  const compute::Range range = hops_[hop].range;
  if (receives(chunk, gather)) {
    auto received = co_await receive(hop, section, gather);
    DLOBD_CO_CHECK(received);
  }
  if (sends(chunk, gather)) {
    auto sent = co_await answer(hop, gather, buffer_.moved(range));
    DLOBD_CO_CHECK(sent);
  }
  if (buffer_.rounds() && receives(chunk, gather)) {
    buffer_.land(range);
    divide(range);
  }
  co_return base::Result<void>();
}

void TfRing::divide(compute::Range range) {
  context_.kernels.divide(buffer_.data(range), static_cast<float>(ranks_));
}

base::Task<base::Result<void>> TfRing::receive(std::size_t hop, int section, Pass pass) {
  TfRequest request;
  request.step = step_;
  request.pack = static_cast<std::uint32_t>(hops_[hop].pack);
  request.pass = pass;
  request.section = static_cast<std::uint32_t>(section);
  request.source = static_cast<std::uint32_t>(predecessor_);
  const auto bytes = request.encode();
  transport::Message message(predecessor_, Notification{kMessage, kRequest}, bytes,
                             Traffic::control);
  auto asked = co_await context_.endpoint.send(message);
  DLOBD_CO_CHECK(asked);
  co_await hops_[hop].answered.wait();
  if (error_) co_return base::fail(*error_);
  co_return base::Result<void>();
}

base::Task<base::Result<void>> TfRing::answer(std::size_t hop, Pass pass,
                                              std::span<const std::byte> elements) {
  co_await hops_[hop].requested.wait();
  if (error_) co_return base::fail(*error_);
  transport::Write write(successor_, pass == reduce ? region::scratch : region::gradients,
                         hops_[hop].range.begin * buffer_.element_bytes(), elements,
                         Notification{kMessage, static_cast<std::uint32_t>(hop)}, Traffic::data);
  auto written = co_await context_.endpoint.write(write);
  co_return written;
}

base::Task<base::Result<void>> TfRing::take_messages() {
  base::Result<void> taken;
  while (taken && messages_open_ > 0) {
    auto arrival = co_await context_.endpoint.next(kMessage);
    if (!arrival) {
      taken = base::fail(arrival.error());
    } else {
      taken = arrival->index == kRequest ? accept_request(*arrival) : accept_answer(*arrival);
    }
  }
  taking_ = false;
  if (!taken) co_return give_up(taken.error());
  co_return taken;
}

base::Result<void> TfRing::accept_request(const transport::Arrival& arrival) {
  const auto request = TfRequest::decode(arrival.payload);
  if (request && arrival.source == successor_) {
    if (request->step == step_ + 1) {
      early_.push_back(*request);
      return {};
    }
    if (mark(*request)) return {};
  }
  return base::fail(base::ErrorKind::corrupt_data,
                    fmt::format("a peer asks for what is not due: rank {}, {} bytes, in step {}",
                                arrival.source, arrival.payload.size(), step_),
                    arrival.source);
}

bool TfRing::mark(const TfRequest& request) {
  if (request.step != step_ || request.source != static_cast<std::uint32_t>(rank_) ||
      request.pack >= packs_.size() || request.pass > gather ||
      request.section >= static_cast<std::uint32_t>(packs_[request.pack].sections.count)) {
    return false;
  }
  Pack& pack = packs_[request.pack];
  const int section = static_cast<int>(request.section);
  const auto pass = static_cast<Pass>(request.pass);
  Hop& hop = hops_[hop_of(pack, section, pass)];
  const bool due = hop.range.size() > 0 && sends(pack.sections.chunk(section), pass);
  if (!due || hop.requested.is_set()) return false;
  hop.requested.set();
  ++pack.requests_taken;
  if (pack.started) --messages_open_;
  return true;
}

base::Result<void> TfRing::accept_answer(const transport::Arrival& arrival) {
  const std::size_t index = arrival.index;
  if (index < hops_.size()) {
    Hop& hop = hops_[index];
    const int section = static_cast<int>((index - packs_[hop.pack].first_hop) / 2);
    const auto pass = static_cast<Pass>(index % 2);
    const bool due = packs_[hop.pack].started &&
                     receives(packs_[hop.pack].sections.chunk(section), pass) &&
                     !hop.answered.is_set();
    if (due && arrival.source == predecessor_ &&
        arrival.bytes == hop.range.size() * buffer_.element_bytes()) {
      hop.answered.set();
      --messages_open_;
      return {};
    }
  }
  return not_due(arrival, "a section");
}

// Nobody waits any longer.
base::Failure TfRing::give_up(const base::Error& error) {
  if (!error_) error_ = error;
  messages_open_ = 0;
  for (Hop& hop : hops_) {
    hop.requested.set();
    hop.answered.set();
  }
  return base::fail(error);
}

}  // namespace dlobd::exchange
