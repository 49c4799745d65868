// TensorFlowOnSpark with TensorFlow 2's MultiWorkerMirroredStrategy.
#include <fmt/format.h>

#include "exchange/tf_ring.h"
#include "stacks/stack.h"

namespace dlobd::stacks {
namespace {

constexpr double kMiB = 1 << 20;

Design make() {
  Design design;
  design.stack = "tensorflowonspark";
  design.exchange = "tf_ring";
  // Its examples give every worker batches of 64, or make the global batch 64 times the workers:
  // either way a worker's stays.
  design.batch_rule = BatchRule::per_worker;
  design.order = batches::Order::as_stored;  // the partitions are fed as they come, every epoch
  design.behaviour = Behaviour::faithful;
  design.defects.push_back(defect(
      "record_feed", "records reach the worker one by one, through a queue between processes"));
  design.defects.push_back(
      defect("single_pack",
             "all gradients travel in one pack, so nothing starts before the last is ready"));
  return design;
}

exchange::TfRingOptions options_of(const Design& design) {
  exchange::TfRingOptions options = design.tf_ring;
  options.single_pack = design.faithful("single_pack");
  options.element = design.wire_element;
  return options;
}

std::unique_ptr<exchange::Exchange> make_protocol(const Design& design, exchange::Context context) {
  return std::make_unique<exchange::TfRing>(context, options_of(design));
}

// Of one pack: every chunk but one goes out in each pass; each in as many messages as it has
// sections that are not empty. What comes in is asked for, one request each.
StepTraffic pack_traffic(std::size_t elements, exchange::TfRingOptions options, int ranks,
                         int rank) {
  const exchange::TfSections sections(elements, ranks, options);
  StepTraffic traffic;
  for (int section = 0; section < sections.count; ++section) {
    const std::size_t size = sections.at(section).size();
    if (size == 0) continue;
    const std::uint64_t bytes = size * compute::bytes_of(options.element);
    const int chunk = sections.chunk(section);
    // How far round the ring, from where the chunk begins, this rank lies.
    const int in_reduce = exchange::wrap(rank - chunk, ranks);
    const int in_gather = exchange::wrap(rank - chunk + 1, ranks);
    for (const int place : {in_reduce, in_gather}) {
      const auto moves = [bytes](transport::Count& data, transport::Count& control) {
        ++data.messages;
        data.bytes += bytes;
        ++control.messages;
        control.bytes += exchange::TfRequest::kBytes;
      };
      if (place < ranks - 1) moves(traffic.data_sent, traffic.control_received);
      if (place > 0) moves(traffic.data_received, traffic.control_sent);
    }
  }
  return traffic;
}

StepTraffic traffic(const Design& design, const Views& views, exchange::Layout layout, int rank,
                    bool) {
  StepTraffic traffic;
  if (layout.workers == 1) return traffic;
  const exchange::TfRingOptions options = options_of(design);
  for (const exchange::Bucket& pack : exchange::tf_packs(views, options)) {
    traffic += pack_traffic(pack.range.size(), options, layout.workers, rank);
  }
  return traffic;
}

void explain(Page& page, const Design& design, const Views& views, exchange::Layout layout) {
  const exchange::TfRingOptions options = options_of(design);
  const std::size_t element_bytes = compute::bytes_of(options.element);
  const auto packs = exchange::tf_packs(views, options);
  const bool rounds = options.element != compute::WireElement::float32;
  const std::string divided = fmt::format("divides the sum by {}", layout.workers);
  page.heading("Who owns what");
  page.paragraph("  ",
                 "Every worker holds all parameters and all of the optimizer's state, and updates "
                 "them alike.");
  page.heading("One step, on every worker r");
  page.paragraph(
      "  compute    ",
      options.single_pack
          ? std::string("Forward and backward pass. Nothing moves meanwhile.")
          : fmt::format("Forward and backward pass. A pack of gradients (at least {:.2f} MiB, the "
                        "last layer first) starts round the ring as soon as it is complete.",
                        static_cast<double>(options.pack_bytes) / kMiB));
  page.paragraph(
      "  reduce     ",
      fmt::format("r asks r-1 for each chunk but its own and adds its gradients: {} hops "
                  "until the sum is whole.{}",
                  layout.workers - 1, rounds ? "" : fmt::format(" Whoever has it {}.", divided)));
  page.paragraph(
      "  gather     ",
      fmt::format("r asks r-1 for each finished chunk but the one that it has: {} hops.{}",
                  layout.workers - 1,
                  rounds ? fmt::format(" Each worker {} for itself.", divided) : ""));
  page.paragraph("  update     ", "SGD over all parameters, on every worker.");
  page.line("");
  page.line(fmt::format("  {:>6}  {:<28}  {:>13}  {:>8}  {:>17}", "pack", "parameters", "bytes",
                        "sections", "bytes of a section"));
  for (std::size_t i = 0; i < packs.size() && i < static_cast<std::size_t>(kMostRows); ++i) {
    const exchange::TfSections sections(packs[i].range.size(), layout.workers, options);
    page.line(fmt::format("  {:>6}  {:<28}  {:>13}  {:>8}  {:>17}", i,
                          names_in(views, packs[i].range),
                          grouped(packs[i].range.size() * element_bytes), sections.count,
                          grouped(sections.at(0).size() * element_bytes)));
  }
  page.more_rows(packs.size());
}

// The overlapped all-reduce: packs in flight beside the backward pass, pushed instead of asked for,
// small ones by recursive doubling; records in batches.
Design make_improved() {
  const Design faithful = make();
  Design design;
  design.stack = faithful.stack;
  design.exchange = "allreduce";
  design.batch_rule = faithful.batch_rule;
  design.order = faithful.order;
  design.behaviour = Behaviour::improved;
  return design;
}

std::unique_ptr<exchange::Exchange> make_improved_protocol(const Design& design,
                                                           exchange::Context context) {
  return kAllReduce.exchange(design, context);
}

StepTraffic improved_traffic(const Design& design, const Views& views, exchange::Layout layout,
                             int rank, bool first) {
  return kAllReduce.traffic(design, views, layout, rank, first);
}

void explain_improved(Page& page, const Design& design, const Views& views,
                      exchange::Layout layout) {
  kAllReduce.explain(page, design, views, layout);
}

}  // namespace

const Stack kTensorFlowOnSparkImproved = {
    "tensorflowonspark",
    make_improved,
    make_improved_protocol,
    nullptr,
    improved_traffic,
    explain_improved,
    "In N workers and n elements of a bucket: ring 2(N-1) chunks in segments, 8n(N-1)/N bytes; "
    "doubling log2 N messages, 4n log2 N bytes; half the bytes where elements have 16 bits. No "
    "requests.",
    "Our own: every worker holds and updates all, and gradients are averaged, as in TensorFlow 2's "
    "ring. What differs is when and how they travel: in buckets, beside the backward pass, without "
    "a request for each chunk; and records come to the worker in batches. The sum is scaled by "
    "1/N, "
    "where the ring divides it by N: the last bit may differ.",
    {},
    nullptr,
    nullptr,
    nullptr,
    {},
    true};

const Stack kTensorFlowOnSpark = {
    "tensorflowonspark",
    make,
    make_protocol,
    nullptr,
    traffic,
    explain,
    "In N workers and n elements of a pack: 2(N-1) messages, 8n(N-1)/N bytes out and in, half of "
    "that where elements have 16 bits, twice the messages where a chunk would exceed 4 MiB; a "
    "request of 24 bytes for each message.",
    "As in TensorFlow 2's ring under MultiWorkerMirroredStrategy: one pack, sizes and number of "
    "its sections, the receiver's requests, order of additions, division after the sum, the "
    "optimizer on every worker. Left out: gRPC and its protobuf frames, Python and its pickled "
    "records (the trips of a record between processes are made), TensorFlow's graph executor, and "
    "Spark, which moves no parameters.",
    {},
    nullptr,
    &kTensorFlowOnSparkImproved,
    nullptr,
    // The ring goes by gRPC alone; its verbs went with TensorFlow 1.
    {.tcp = RunsOn::both, .rdma = RunsOn::nothing},
    true};

}  // namespace dlobd::stacks
