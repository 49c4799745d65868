#include "training/rank.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "metrics/process.h"
#include "training/checkpoint.h"
#include "training/identity.h"

namespace dlobd::training {

using base::ErrorKind;
using base::Result;
using base::Task;

namespace {

std::vector<std::byte> bytes_of(std::uint64_t value) {
  std::vector<std::byte> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

std::uint64_t checksum(std::span<const float> values) {
  const auto bytes = std::as_bytes(values);
  return crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
}

metrics::TrafficCount count_of(const transport::Count& count) {
  return {count.messages, count.bytes};
}

}  // namespace

Rank::Rank(Parts parts)
    : parts_(std::move(parts)),
      phases_(parts_.loop),
      reporter_([this](metrics::Blob blob) {
        if (parts_.ship) {
          parts_.ship(std::move(blob));
        } else if (member_) {
          if (parts_.kept) parts_.kept(blob);
          member_->ship(std::move(blob));
        }
      }),
      optimizer_(parts_.config.optimizer, arena(), parts_.kernels),
      endpoint_(std::move(parts_.endpoint)),
      verdict_known_(parts_.loop) {}

bool Rank::request_stop() {
  if (member_) member_->request_stop();
  return member_ != nullptr;
}

Task<Result<End>> Rank::run(std::unique_ptr<cluster::Link> link, cluster::JobIdentity identity) {
  cluster::Member::Options options;
  options.peer_timeout = parts_.config.peer_timeout;
  auto joined = co_await cluster::Member::join(parts_.loop, std::move(link), std::move(identity),
                                               parts_.rank, options);
  DLOBD_CO_CHECK(joined);
  member_ = std::move(*joined);
  watch();

  auto end = co_await take_part();
  if (end) {
    done_ = *end;
    auto left = co_await member_->leave();
    if (left) co_return end;
    end = base::fail(left.error());
  }
  // The verdict is what all ranks report, whatever this one saw first. A rank that knows its own
  // failure makes it the verdict.
  if (!verdict_ && end.error().kind != ErrorKind::peer_lost) {
    member_->report_failure(end.error().message);
  }
  co_await verdict_known_.wait();
  endpoint_->fail(verdict_->error());
  // A step that was begun ends before its exchange goes.
  if (exchange_) (void)co_await exchange_->finish_step();
  // Says goodbye all the same: rank 0 stays until the survivors' last reports have come in.
  (void)co_await member_->leave();
  auto error = verdict_->error();
  // What went wrong here keeps its kind; the words are those that every rank has.
  if (verdict_->culprit == parts_.rank && verdict_->cause == cluster::Verdict::Cause::failed) {
    error.kind = end.error().kind;
  }
  co_return base::fail(std::move(error));
}

void Rank::watch() {
  endpoint_->on_link_broken(
      [this](int peer, const base::Error& why) { member_->suspect(peer, why.message); });
  member_->on_verdict([this](const cluster::Verdict& verdict) {
    verdict_ = verdict;
    endpoint_->fail(verdict.error());
    verdict_known_.set();
  });
}

compute::ParameterArena& Rank::arena() {
  return parts_.replica ? parts_.replica->arena() : *parts_.parameters;
}

Task<Result<End>> Rank::take_part() {
  auto connected = co_await connect();
  if (!connected) {
    // A peer that cannot be reached is a suspicion like any link that breaks.
    const auto& error = connected.error();
    if (error.rank && *error.rank != parts_.rank) member_->suspect(*error.rank, error.message);
    co_return base::fail(error);
  }
  clock_start_ = parts_.loop.now();
  cpu_start_ns_ = metrics::cpu_time_ns();
  report_start();
  auto plan = co_await agree();
  DLOBD_CO_CHECK(plan);
  if (is_worker()) {
    Result<Feed> feed;
    base::UniqueFunction<void()> open = [&] {
      feed = open_feed(parts_.dataset, parts_.config, parts_.rank, *plan, parts_.read_ahead);
    };
    co_await parts_.worker->run(std::move(open));
    DLOBD_CO_CHECK(feed);
    feed_ = std::move(*feed);
    if (stacks::feeds_records(parts_.config.design) && !parts_.read_ahead && parts_.rank == 0) {
      reporter_.add(metrics::Report(metrics::Warning{
          "the defect record_feed has no effect in virtual time: records come in batches"}));
    }
  }
  auto from = co_await start_position(plan->steps);
  DLOBD_CO_CHECK(from);
  auto same = co_await agree_on_start(*from);
  DLOBD_CO_CHECK(same);
  // Named: g++ 12 frees the temporary of a conditional inside co_await twice.
  Result<End> end = End::finished;
  if (is_worker()) {
    end = co_await train(*from, *plan);
  } else {
    end = co_await serve(*from);
  }
  DLOBD_CO_CHECK(end);
  member_->set_phase("end");
  auto shut = co_await endpoint_->shutdown();
  DLOBD_CO_CHECK(shut);
  co_return end;
}

Task<Result<End>> Rank::train(Position from, const batches::EpochPlan& plan) {
  member_->set_phase("train");
  StepLoop::Parts loop_parts{parts_.loop,     parts_.config, parts_.rank, *parts_.worker,
                             *parts_.replica, *feed_.train,  *feed_.test, *exchange_,
                             optimizer_,      *member_,      phases_,     reporter_,
                             parts_.store,    clock_start_,  plan.steps};
  StepLoop steps(loop_parts, from);
  auto end = co_await steps.run();
  if (end) {
    auto left = co_await exchange_->leave();
    if (!left) end = base::fail(left.error());
  }
  for (std::string& remark : exchange_->remarks()) {
    reporter_.add(metrics::Report(metrics::Warning{std::move(remark)}));
  }
  metrics::RankSummary summary;
  summary.samples_seen = steps.samples_seen();
  const auto shard = batches::shard_of(parts_.dataset.count(records::Part::train), parts_.rank,
                                       parts_.config.ranks);
  const std::uint64_t seen = plan.samples_seen[static_cast<std::size_t>(parts_.rank)];
  const std::uint64_t epochs_begun = steps.position().epoch - from.epoch;
  if (seen < shard.count) summary.samples_dropped = (shard.count - seen) * epochs_begun;
  if (seen > shard.count) summary.samples_padded = (seen - shard.count) * epochs_begun;
  report_end(summary);
  co_return end;
}

// The workers evaluate, save and stop among themselves; they tell the service when all is done.
Task<Result<End>> Rank::serve(Position from) {
  member_->set_phase("serving as " + parts_.config.design.server_role);
  member_->stand_aside();
  auto served = co_await service_->serve(from.step);
  report_end(metrics::RankSummary());
  DLOBD_CO_CHECK(served);
  co_return End::finished;
}

Task<Result<void>> Rank::connect() {
  member_->set_phase("connect");
  if (is_worker()) parts_.replica->initialize(parts_.config.seed);
  const exchange::Context context{*endpoint_,     arena(), optimizer_,
                                  parts_.kernels, phases_, parts_.config.layout()};
  if (is_worker()) {
    exchange_ = stacks::make_exchange(parts_.config.design, context);
  } else {
    service_ = stacks::make_service(parts_.config.design, context);
  }
  auto mine = endpoint_->descriptor();
  DLOBD_CO_CHECK(mine);
  auto descriptors = co_await member_->all_gather(std::move(*mine), "descriptors");
  DLOBD_CO_CHECK(descriptors);
  co_return co_await endpoint_->connect(*descriptors);
}

// Each worker states its own shard: what it found, not what the others think that it should have.
Task<Result<batches::EpochPlan>> Rank::agree() {
  cluster::Blob mine;
  if (is_worker()) {
    const auto records = parts_.dataset.count(records::Part::train);
    mine = bytes_of(batches::shard_of(records, parts_.rank, parts_.config.ranks).count);
  }
  auto gathered = co_await member_->all_gather(std::move(mine), "shards");
  DLOBD_CO_CHECK(gathered);
  gathered->resize(static_cast<std::size_t>(parts_.config.ranks));
  std::vector<std::uint64_t> sizes;
  for (const auto& blob : *gathered) {
    std::uint64_t size = 0;
    if (blob.size() != sizeof size) {
      co_return base::fail(ErrorKind::corrupt_data,
                           fmt::format("a shard size of {} bytes instead of 8 came from rank {}",
                                       blob.size(), sizes.size()));
    }
    std::memcpy(&size, blob.data(), sizeof size);
    sizes.push_back(size);
  }
  co_return batches::agree_on_steps(sizes, parts_.config.batch.local, parts_.config.uneven);
}

// Every host reads its own file of that name: they must hold the same.
Task<Result<void>> Rank::agree_on_start(Position from) {
  const std::uint64_t mine[] = {from.step, from.epoch, from.batch, checksum(arena().parameters()),
                                checksum(optimizer_.slots())};
  const auto bytes = std::as_bytes(std::span(mine));
  cluster::Blob blob(bytes.begin(), bytes.end());
  auto gathered = co_await member_->all_gather(std::move(blob), "a start");
  DLOBD_CO_CHECK(gathered);
  for (std::size_t rank = 0; rank < gathered->size(); ++rank) {
    if ((*gathered)[rank] == gathered->front()) continue;
    co_return base::fail(ErrorKind::invalid_argument,
                         fmt::format("the ranks do not start from the same weights and step; is {} "
                                     "the same file on each host? ranks 0 and {} differ",
                                     parts_.config.resume.empty() ? "the seed's initialisation"
                                                                  : parts_.config.resume,
                                     rank));
  }
  co_return Result<void>();
}

Task<Result<Position>> Rank::start_position(std::uint64_t steps_per_epoch) {
  Position from;
  if (parts_.config.resume.empty()) co_return from;
  Result<Checkpoint> loaded;
  base::UniqueFunction<void()> read = [&] { loaded = load(parts_.store, parts_.config.resume); };
  co_await parts_.worker->run(std::move(read));
  DLOBD_CO_CHECK(loaded);
  auto same = check_same_run(*loaded, identity_of(parts_.config), parts_.config.resume);
  DLOBD_CO_CHECK(same);
  const auto& arena = this->arena();
  std::span<float> owed;  // by this rank, where the design rounds
  if (is_worker() && !exchange_->residuals().empty()) {
    owed = exchange_->residuals().first(arena.size());
  }
  if (loaded->parameters.size() != arena.size() || loaded->momentum.size() != arena.size() ||
      loaded->state.size() != arena.state().size() ||
      loaded->generators.size() != static_cast<std::size_t>(parts_.config.ranks) ||
      loaded->residuals.size() != owed.size() * static_cast<std::size_t>(parts_.config.ranks) ||
      loaded->batch >= steps_per_epoch) {
    co_return base::fail(
        ErrorKind::corrupt_data,
        fmt::format(
            "the checkpoint does not fit the model or the data: {}: {} parameters, {} here; "
            "batch {} of {} in an epoch",
            parts_.config.resume, loaded->parameters.size(), arena.size(), loaded->batch,
            steps_per_epoch));
  }
  std::copy(loaded->parameters.begin(), loaded->parameters.end(), arena.parameters().begin());
  std::copy(loaded->state.begin(), loaded->state.end(), arena.state().begin());
  std::copy(loaded->momentum.begin(), loaded->momentum.end(), optimizer_.slots().begin());
  if (is_worker()) {
    const auto mine =
        std::span<const float>(loaded->residuals)
            .subspan(static_cast<std::size_t>(parts_.rank) * owed.size(), owed.size());
    std::copy(mine.begin(), mine.end(), owed.begin());
    auto set = parts_.replica->set_generator_state(
        loaded->generators[static_cast<std::size_t>(parts_.rank)]);
    DLOBD_CO_CHECK(set);
  }
  from.step = loaded->step;
  from.epoch = loaded->epoch;
  from.batch = loaded->batch;
  co_return from;
}

void Rank::report_start() {
  metrics::RankStarted started;
  started.rank = parts_.rank;
  started.pid = getpid();
  started.training_started_unix_ns = metrics::unix_now_ns();
  started.environment = parts_.environment;
  reporter_.add(metrics::Report(started));
}

// The rest of the summary is the same for every role.
void Rank::report_end(metrics::RankSummary summary) {
  using transport::Traffic;
  const auto& counters = endpoint_->counters();
  summary.rank = parts_.rank;
  summary.role = parts_.config.design.role(parts_.config.layout(), parts_.rank);
  summary.host = parts_.environment.host;
  summary.pid = getpid();
  summary.data_sent = count_of(counters.sent_of(Traffic::data));
  summary.data_received = count_of(counters.received_of(Traffic::data));
  summary.control_sent = count_of(counters.sent_of(Traffic::control));
  summary.control_received = count_of(counters.received_of(Traffic::control));
  summary.apart_sent = count_of(counters.sent_of(Traffic::apart));
  summary.apart_received = count_of(counters.received_of(Traffic::apart));
  parts_.summarize_network(summary);
  const auto links = member_->link_counters();
  summary.heartbeats_sent = links.heartbeats_sent;
  summary.gathers_sent = links.gathers_sent;
  summary.gather_bytes_sent = links.gather_bytes_sent;
  summary.peak_rss_bytes = metrics::peak_rss_bytes();
  summary.cpu_ns = static_cast<std::uint64_t>(metrics::cpu_time_ns() - cpu_start_ns_);
  reporter_.add(metrics::Report(summary));
}

}  // namespace dlobd::training
