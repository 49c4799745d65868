#include "exchange/allreduce.h"

#include <fmt/format.h>

#include <algorithm>

#include "exchange/recursive_doubling.h"
#include "exchange/slices.h"
#include "stacks/stack.h"

namespace dlobd::stacks {
namespace {

constexpr double kMiB = 1 << 20;

Design make() {
  Design design;
  design.stack = "allreduce";
  design.exchange = "allreduce";
  design.batch_rule = BatchRule::per_worker;
  return design;
}

exchange::AllReduceOptions options_of(const Design& design) {
  exchange::AllReduceOptions options = design.all_reduce;
  options.collective.element = design.wire_element;
  return options;
}

std::unique_ptr<exchange::Exchange> make_protocol(const Design& design, exchange::Context context) {
  return std::make_unique<exchange::AllReduce>(context, options_of(design));
}

// Ring: every chunk but one goes out as a partial sum, and every chunk but one as a finished sum;
// each as ceil(chunk / segment) messages, at least one.
StepTraffic ring(std::uint64_t elements, std::uint64_t element_bytes, std::uint64_t segment,
                 int world_size, int rank) {
  std::uint64_t all_messages = 0;
  const auto size = [&](int chunk) -> std::uint64_t {
    return exchange::slice(elements, world_size, exchange::wrap(chunk, world_size)).size();
  };
  const auto messages = [&](int chunk) -> std::uint64_t {
    return std::max<std::uint64_t>(1, (size(chunk) + segment - 1) / segment);
  };
  for (int chunk = 0; chunk < world_size; ++chunk) all_messages += messages(chunk);
  StepTraffic traffic;
  traffic.data_sent.messages = 2 * all_messages - messages(rank + 1) - messages(rank + 2);
  traffic.data_received.messages = 2 * all_messages - messages(rank) - messages(rank + 1);
  traffic.data_sent.bytes = (2 * elements - size(rank + 1) - size(rank + 2)) * element_bytes;
  traffic.data_received.bytes = (2 * elements - size(rank) - size(rank + 1)) * element_bytes;
  return traffic;
}

// Recursive doubling: log2 M rounds among the M ranks that pair up, one message more for those that
// have an extra rank to serve, one in all for an extra; each of all elements.
StepTraffic doubling(std::uint64_t elements, std::uint64_t element_bytes, int world_size,
                     int rank) {
  const exchange::Doubling pairs = exchange::doubling(world_size);
  std::uint64_t messages = 1;
  if (rank < pairs.ranks) {
    messages = static_cast<std::uint64_t>(pairs.rounds + (rank < pairs.extras ? 1 : 0));
  }
  StepTraffic traffic;
  traffic.data_sent.messages = messages;
  traffic.data_sent.bytes = messages * elements * element_bytes;
  traffic.data_received = traffic.data_sent;
  return traffic;
}

bool by_ring(const Design& design, std::size_t elements, int world_size) {
  return exchange::chosen(options_of(design).collective, world_size, elements) ==
         exchange::Algorithm::ring;
}

StepTraffic bucket_traffic(const Design& design, std::size_t elements, int world_size, int rank) {
  if (world_size == 1) return {};
  const std::size_t segment = design.all_reduce.collective.segment_elements;
  const std::size_t bytes = compute::bytes_of(design.wire_element);
  return by_ring(design, elements, world_size) ? ring(elements, bytes, segment, world_size, rank)
                                               : doubling(elements, bytes, world_size, rank);
}

StepTraffic traffic(const Design& design, const Views& views, exchange::Layout layout, int rank,
                    bool) {
  StepTraffic traffic;
  for (const exchange::Bucket& bucket : exchange::buckets(views, design.all_reduce.bucket_bytes)) {
    traffic += bucket_traffic(design, bucket.range.size(), layout.workers, rank);
  }
  return traffic;
}

void explain(Page& page, const Design& design, const Views& views, exchange::Layout layout) {
  const auto all = exchange::buckets(views, design.all_reduce.bucket_bytes);
  page.heading("Who owns what");
  page.paragraph("  ",
                 "Every rank holds all parameters and all of the optimizer's state, and updates "
                 "them alike.");
  page.heading("One step, on every rank");
  page.paragraph(
      "  compute    ",
      fmt::format("Forward and backward pass. A bucket of gradients (at least {:.2f} MiB, "
                  "the last layer first) is summed over all ranks as soon as it is "
                  "ready, beside the backward pass, one bucket after the other.",
                  static_cast<double>(design.all_reduce.bucket_bytes) / kMiB));
  page.paragraph("  finish     ", "Waits for what the backward pass has not hidden.");
  page.paragraph("  update     ", "SGD over all parameters, on every rank.");
  page.line("");
  page.line(fmt::format("  {:>6}  {:<28}  {:>13}  {:<18}  {:>8}", "bucket", "parameters", "bytes",
                        "algorithm", "messages"));
  for (std::size_t i = 0; i < all.size() && i < static_cast<std::size_t>(kMostRows); ++i) {
    const std::size_t elements = all[i].range.size();
    const char* algorithm = layout.workers == 1                         ? "none"
                            : by_ring(design, elements, layout.workers) ? "ring"
                                                                        : "recursive doubling";
    page.line(fmt::format(
        "  {:>6}  {:<28}  {:>13}  {:<18}  {:>8}", i, names_in(views, all[i].range),
        grouped(elements * compute::bytes_of(design.wire_element)), algorithm,
        grouped(bucket_traffic(design, elements, layout.workers, 0).data_sent.messages)));
  }
  page.more_rows(all.size());
  page.line("  (messages: those that rank 0 sends)");
}

}  // namespace

const Stack kAllReduce = {
    "allreduce",
    make,
    make_protocol,
    nullptr,
    traffic,
    explain,
    "In N ranks and n elements of a bucket: ring 2(N-1) chunks in segments, 8n(N-1)/N bytes; "
    "doubling log2 N messages, 4n log2 N bytes; half the bytes where elements have 16 bits.",
    "A design of today for comparison, not a copy of a product: overlapped buckets as PyTorch's "
    "DistributedDataParallel and Horovod have them, ring and recursive doubling as MPI libraries "
    "have them. The sum is scaled by 1/N after the last addition.",
    {},
    nullptr,
    nullptr,
    nullptr,
    {},
    true};

}  // namespace dlobd::stacks
