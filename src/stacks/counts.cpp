// The closed forms, written from the protocols' descriptions and not from their code: what the
// transports count must equal them.
#include <algorithm>

#include "exchange/recursive_doubling.h"
#include "exchange/slices.h"
#include "stacks/design.h"

namespace dlobd::stacks {
namespace {

constexpr std::uint64_t kElementBytes = sizeof(float);

// CaffeOnSpark: N-1 copies of the own slice go out as weights, and all that others own as
// gradients; the same comes in. 2(N-1) messages, 8P(N-1)/N bytes where N divides P.
StepTraffic shard_push(std::uint64_t elements, int world_size, int rank) {
  const auto peers = static_cast<std::uint64_t>(world_size - 1);
  const std::uint64_t own = exchange::slice(elements, world_size, rank).size();
  StepTraffic traffic;
  traffic.messages_sent = traffic.messages_received = 2 * peers;
  traffic.bytes_sent = traffic.bytes_received = (peers * own + elements - own) * kElementBytes;
  return traffic;
}

// Ring: every chunk but one goes out as a partial sum, and every chunk but one as a finished sum;
// each as ceil(chunk / segment) messages, at least one.
StepTraffic ring(std::uint64_t elements, std::uint64_t segment, int world_size, int rank) {
  std::uint64_t all_messages = 0;
  const auto size = [&](int chunk) -> std::uint64_t {
    return exchange::slice(elements, world_size, exchange::wrap(chunk, world_size)).size();
  };
  const auto messages = [&](int chunk) -> std::uint64_t {
    return std::max<std::uint64_t>(1, (size(chunk) + segment - 1) / segment);
  };
  for (int chunk = 0; chunk < world_size; ++chunk) all_messages += messages(chunk);
  StepTraffic traffic;
  traffic.messages_sent = 2 * all_messages - messages(rank + 1) - messages(rank + 2);
  traffic.messages_received = 2 * all_messages - messages(rank) - messages(rank + 1);
  traffic.bytes_sent = (2 * elements - size(rank + 1) - size(rank + 2)) * kElementBytes;
  traffic.bytes_received = (2 * elements - size(rank) - size(rank + 1)) * kElementBytes;
  return traffic;
}

// Recursive doubling: log2 M rounds among the M ranks that pair up, one message more for those that
// have an extra rank to serve, one in all for an extra; each of all elements.
StepTraffic doubling(std::uint64_t elements, int world_size, int rank) {
  const exchange::Doubling pairs = exchange::doubling(world_size);
  std::uint64_t messages = 1;
  if (rank < pairs.ranks) {
    messages = static_cast<std::uint64_t>(pairs.rounds + (rank < pairs.extras ? 1 : 0));
  }
  StepTraffic traffic;
  traffic.messages_sent = traffic.messages_received = messages;
  traffic.bytes_sent = traffic.bytes_received = messages * elements * kElementBytes;
  return traffic;
}

void add(StepTraffic& sum, const StepTraffic& more) {
  sum.messages_sent += more.messages_sent;
  sum.bytes_sent += more.bytes_sent;
  sum.messages_received += more.messages_received;
  sum.bytes_received += more.bytes_received;
}

}  // namespace

StepTraffic step_traffic(const Design& design, const std::vector<compute::ParameterView>& views,
                         int world_size, int rank) {
  StepTraffic traffic;
  if (world_size == 1) return traffic;
  if (design.stack == Stack::caffeonspark) {
    std::uint64_t elements = 0;
    for (const compute::ParameterView& view : views) elements += view.size;
    return shard_push(elements, world_size, rank);
  }
  const exchange::AllReduceOptions& options = design.all_reduce;
  for (const exchange::Bucket& bucket : exchange::buckets(views, options.bucket_bytes)) {
    add(traffic, bucket_traffic(design, bucket.range.size(), world_size, rank));
  }
  return traffic;
}

StepTraffic bucket_traffic(const Design& design, std::size_t elements, int world_size, int rank) {
  if (world_size == 1) return {};
  const exchange::CollectiveOptions& options = design.all_reduce.collective;
  return exchange::chosen(options, world_size, elements) == exchange::Algorithm::ring
             ? ring(elements, options.segment_elements, world_size, rank)
             : doubling(elements, world_size, rank);
}

}  // namespace dlobd::stacks
