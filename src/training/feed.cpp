#include "training/feed.h"

#include <utility>

#include "batches/memory_source.h"
#include "batches/prefetch.h"
#include "batches/record_feed.h"
#include "batches/sequential_source.h"

namespace dlobd::training {

namespace {

// Large enough to keep a core busy, small enough to stay in its cache.
constexpr std::uint64_t kTestBatchSize = 250;

}  // namespace

base::Result<Feed> open_feed(const records::Dataset& dataset, const Config& config, int rank,
                             const batches::EpochPlan& plan, bool read_ahead) {
  DLOBD_TRY(reader, dataset.open(records::Part::train));
  const auto shard = batches::shard_of(dataset.count(records::Part::train), rank, config.ranks);
  DLOBD_TRY(samples, batches::load(*reader, shard));

  batches::FeedOptions options;
  options.batch_size = config.batch.local;
  options.steps_per_epoch = plan.steps;
  options.order = config.design.order;
  options.seed = config.seed;
  options.rank = rank;
  Feed feed;
  feed.train = std::make_unique<batches::MemorySource>(std::move(samples), options);
  if (read_ahead && stacks::feeds_records(config.design)) {
    feed.train =
        std::make_unique<batches::RecordFeedSource>(std::move(feed.train), config.batch.local);
  } else if (read_ahead) {
    feed.train = std::make_unique<batches::PrefetchSource>(std::move(feed.train));
  }

  DLOBD_TRY(test_reader, dataset.open(records::Part::test));
  const std::uint64_t tested = rank == 0 ? dataset.count(records::Part::test) : 0;
  batches::Shard all;
  all.count = tested;
  DLOBD_TRY(test, batches::load(*test_reader, all));
  feed.test = std::make_unique<batches::SequentialSource>(std::move(test), kTestBatchSize);
  return feed;
}

}  // namespace dlobd::training
