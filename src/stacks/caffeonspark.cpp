#include <fmt/format.h>

#include "exchange/cos_shard_push.h"
#include "exchange/slices.h"
#include "stacks/stack.h"

namespace dlobd::stacks {
namespace {

// Those of both variants.
Design make_base() {
  Design design;
  design.stack = "caffeonspark";
  design.exchange = "cos_shard_push";
  design.batch_rule = BatchRule::per_device;
  design.order = batches::Order::as_stored;  // its partitions are read in the same order each epoch
  design.behaviour = Behaviour::faithful;
  design.defects.push_back(
      defect("snapshot_ungathered",
             "evaluations and snapshots see weights that are fresh in the rank's own slice only"));
  design.defects.push_back(
      defect("momentum_own_slice",
             "a snapshot's momentum is right in rank 0's slice only, so a resumed run differs"));
  design.defects.push_back(
      defect("optimizer_full",
             "every rank runs the optimizer over all parameters, though only its slice counts"));
  design.defects.push_back(
      defect("loss_local", "the loss in the log is one rank's own, not the mean over all ranks"));
  return design;
}

// By sockets.
Design make() {
  Design design = make_base();
  design.defects.insert(
      design.defects.begin(),
      defect("write_256_bytes",
             "messages are written and read in system calls of at most 256 bytes"));
  return design;
}

Design make_rdma() {
  Design design = make_base();
  design.rdma = true;
  design.defects.push_back(defect("arrival_order",
                                  "gradients are added in the order in which they arrive, so no "
                                  "run is like another"));
  design.defects.push_back(
      defect("untyped_notification",
             "one queue tells of weights and gradients, and who waits for one may take the other; "
             "here they are told apart, and how often that mattered is reported"));
  return design;
}

std::unique_ptr<exchange::Exchange> make_protocol(const Design& design, exchange::Context context) {
  exchange::CosDefects defects;
  defects.snapshot_ungathered = design.faithful("snapshot_ungathered");
  defects.momentum_own_slice = design.faithful("momentum_own_slice");
  defects.optimizer_full = design.faithful("optimizer_full");
  defects.rdma = design.rdma;
  defects.arrival_order = design.rdma && design.faithful("arrival_order");
  defects.untyped_notification = design.rdma && design.faithful("untyped_notification");
  return std::make_unique<exchange::CosShardPush>(context, defects, design.wire_element);
}

// N-1 copies of the own slice go out as weights, and all that others own as gradients; as much
// comes in. 2(N-1) messages, 8P(N-1)/N bytes where N divides P and gradients are float32.
StepTraffic traffic(const Design& design, const Views& views, exchange::Layout layout, int rank,
                    bool) {
  const std::uint64_t elements = elements_of(views);
  const auto peers = static_cast<std::uint64_t>(layout.workers - 1);
  const std::uint64_t own = exchange::slice(elements, layout.workers, rank).size();
  StepTraffic traffic;
  if (peers == 0) return traffic;
  traffic.data_sent.messages = 2 * peers;
  traffic.data_received.messages = 2 * peers;
  const std::uint64_t gradient = compute::bytes_of(design.wire_element);
  traffic.data_sent.bytes = peers * own * sizeof(float) + (elements - own) * gradient;
  traffic.data_received.bytes = (elements - own) * sizeof(float) + peers * own * gradient;
  return traffic;
}

void explain(Page& page, const Design& design, const Views& views, exchange::Layout layout) {
  std::vector<Owned> owned;
  for (int rank = 0; rank < layout.workers; ++rank) {
    owned.push_back(
        {std::to_string(rank), exchange::slice(elements_of(views), layout.workers, rank)});
  }
  ranges_section(page, views, owned);
  page.heading("One step, on every rank r: two rounds");
  const std::string messages = counted(static_cast<std::uint64_t>(layout.workers - 1), "message");
  page.paragraph("  weights    ",
                 fmt::format("r sends its slice of the weights to r+1, r+2, ... ({}) and "
                             "waits for theirs. The model is whole now.",
                             messages));
  page.paragraph("  compute    ", "Forward and backward pass. Nothing moves meanwhile.");
  page.paragraph(
      "  gradients  ",
      fmt::format("r divides all its gradients by {}, sends each owner the part that it "
                  "owns ({}), and adds the parts that arrive to its own slice: "
                  "{}",
                  layout.workers, messages,
                  design.rdma && design.faithful("arrival_order") ? "own, then as they come."
                                                                  : "own + (r+1) + (r+2) + ..."));
  page.paragraph("  update     ",
                 design.faithful("optimizer_full")
                     ? "SGD over all parameters. Only the own slice is right afterwards; the next "
                       "step's weights repair the others."
                     : "SGD over the own slice.");
  page.paragraph("             ", "There is no barrier: the two waits act as one.");
}

}  // namespace

const Stack kCaffeOnSpark = {
    "caffeonspark",
    make,
    make_protocol,
    nullptr,
    traffic,
    explain,
    "In N ranks and P parameters: 2(N-1) messages, 8P(N-1)/N bytes out and in; 6P(N-1)/N where "
    "gradients have 16 bits.",
    "As in CaffeOnSpark, by sockets or, over RDMA, by one-sided writes into the memory where the "
    "bytes are used: owners, order of sends, receives and additions, scaling before sending, "
    "number "
    "and size of messages, where the optimizer runs. Left out: the JVM, JNI and Spark around it, "
    "its headers and its one thread per connection, and its silence when a peer is lost: here "
    "every survivor names the lost rank.",
    {},
    nullptr,
    &kCaffeOnSparkImproved,
    make_rdma,
    // RDMA goes straight to and from the memory of GPUs.
    {.tcp = RunsOn::both, .rdma = RunsOn::gpu},
    true};

}  // namespace dlobd::stacks
