#include <fmt/format.h>

#include "exchange/bigdl_blocks.h"
#include "exchange/bigdl_driver.h"
#include "exchange/slices.h"
#include "stacks/stack.h"

namespace dlobd::stacks {
namespace {

Design make_bigdl() {
  Design design;
  design.stack = "bigdl";
  design.exchange = "bigdl_blocks";
  design.wire_element = compute::WireElement::truncated16;
  design.batch_rule = BatchRule::global;
  design.order = batches::Order::random_offset;
  design.server_role = "driver";
  design.servers = 1;
  design.behaviour = Behaviour::faithful;
  design.defects.push_back(
      defect("truncate_each_add",
             "the owner of a slice cuts the sum of its gradients to 16 bits after every addition"));
  design.defects.push_back(defect(
      "lookup_per_block",
      "a worker asks the driver where a block is whenever it fetches it, not only the first time"));
  design.defects.push_back(
      defect("momentum_not_saved", "the momentum of a snapshot is zero, so a resumed run differs"));
  return design;
}

std::unique_ptr<exchange::Exchange> make_bigdl_worker(const Design& design,
                                                      exchange::Context context) {
  exchange::BigDlDefects defects;
  defects.truncate_each_add = design.faithful("truncate_each_add");
  defects.lookup_per_block = design.faithful("lookup_per_block");
  defects.momentum_not_saved = design.faithful("momentum_not_saved");
  return std::make_unique<exchange::BigDlBlocks>(context, defects);
}

std::unique_ptr<exchange::Service> make_bigdl_driver(const Design& design,
                                                     exchange::Context context) {
  return std::make_unique<exchange::BigDlDriver>(context, design.bigdl_drop);
}

// Of a worker: N-1 copies of its block of weights go out, and a block of gradients for each other
// owner; the same comes in.
void count_blocks(StepTraffic& traffic, std::uint64_t elements, exchange::Layout layout, int rank) {
  const auto peers = static_cast<std::uint64_t>(layout.workers - 1);
  const std::uint64_t own = exchange::front_loaded_slice(elements, layout.workers, rank).size();
  if (peers == 0) return;
  traffic.data_sent.messages = 2 * peers;
  traffic.data_sent.bytes = (peers * own + elements - own) * sizeof(std::uint16_t);
  traffic.data_received = traffic.data_sent;
}

StepTraffic bigdl_traffic(const Design& design, const Views& views, exchange::Layout layout,
                          int rank, bool first) {
  const auto workers = static_cast<std::uint64_t>(layout.workers);
  const std::uint64_t fetches = 2 * (workers - 1);  // of each worker
  const bool asks = first || design.faithful("lookup_per_block");
  const std::uint64_t look_ups = asks ? fetches : 0;
  const std::uint64_t registrations = first ? workers + 1 : 0;
  constexpr std::uint64_t kJobs = 2;
  StepTraffic traffic;
  if (layout.is_worker(rank)) {
    count_blocks(traffic, elements_of(views), layout, rank);
    traffic.control_sent.messages = kJobs + look_ups + fetches + registrations;
    traffic.control_received.messages = kJobs + look_ups + fetches;
  } else {
    traffic.control_sent.messages = workers * (kJobs + look_ups);
    traffic.control_received.messages = workers * (kJobs + look_ups + registrations);
  }
  traffic.control_sent.bytes = traffic.control_sent.messages * exchange::bigdl::kControlBytes;
  traffic.control_received.bytes =
      traffic.control_received.messages * exchange::bigdl::kControlBytes;
  return traffic;
}

void explain_drop(Page& page, const exchange::BigDlDrop& drop, int workers) {
  if (drop.share == 0) return;
  page.paragraph(
      "  stragglers ",
      fmt::format("From step {} on, a pass that is not over within a threshold is cut off: its "
                  "block is zeros, and the mean is over the others. Every {} steps the threshold "
                  "is taken anew, so that {} of their {} passes are cut off ({:g} %). Where more "
                  "than {:g} % of a step's are, it makes no update.",
                  drop.warm_up + drop.every, drop.every, drop.wanted(workers),
                  drop.every * static_cast<std::uint64_t>(workers), 100 * drop.share,
                  100 * drop.most));
}

void explain_bigdl(Page& page, const Design& design, const Views& views, exchange::Layout layout) {
  std::vector<Owned> owned;
  for (int rank = 0; rank < layout.workers; ++rank) {
    owned.push_back({std::to_string(rank),
                     exchange::front_loaded_slice(elements_of(views), layout.workers, rank)});
  }
  ranges_section(page, views, owned);
  const int peers = layout.workers - 1;
  const bool asks = design.faithful("lookup_per_block");
  page.heading("One step: two jobs, launched by the driver");
  page.paragraph("  job 1      ", "The driver launches one task on every worker r.");
  page.paragraph("  weights    ",
                 fmt::format("r fetches the other owners' blocks of weights ({}), four at once: it "
                             "{}, asks the owner for the block, and gets it. Every weight "
                             "has passed through 16 bits, its own too.",
                             peers,
                             asks ? "asks the driver where the block is"
                                  : "knows where the block is from its first step"));
  page.paragraph("  compute    ", "Forward and backward pass. Nothing moves meanwhile.");
  page.paragraph("  gradients  ",
                 "r cuts its gradients to 16 bits, one block for each owner, and reports to the "
                 "driver. Nothing moves.");
  page.paragraph("  job 2      ", "When all have reported, the driver launches one task on each.");
  page.paragraph("  aggregate  ",
                 fmt::format("r fetches the blocks of gradients for its slice ({}) and adds them "
                             "in the order of the ranks, {}; then times 1/{}.",
                             peers,
                             design.faithful("truncate_each_add")
                                 ? "cutting the sum to 16 bits after every addition"
                                 : "in float32",
                             layout.workers));
  page.paragraph("  update     ",
                 "SGD over the own slice, in float32; cut to 16 bits, it is the next step's block "
                 "of weights. r reports to the driver: a barrier.");
  explain_drop(page, design.bigdl_drop, layout.workers);
}

base::Result<void> accept_drop_percentage(Design& design, std::string_view value) {
  DLOBD_TRY(given, share(value));
  design.bigdl_drop.share = given;
  return {};
}

base::Result<void> accept_max_drop_percentage(Design& design, std::string_view value) {
  DLOBD_TRY(given, share(value));
  design.bigdl_drop.most = given;
  return {};
}

base::Result<void> accept_drop_warm_up(Design& design, std::string_view value) {
  DLOBD_TRY(steps, whole_number(value, 0, 1'000'000));
  design.bigdl_drop.warm_up = static_cast<std::uint64_t>(steps);
  return {};
}

base::Result<void> accept_drop_every(Design& design, std::string_view value) {
  DLOBD_TRY(steps, whole_number(value, 1, 10'000));
  design.bigdl_drop.every = static_cast<std::uint64_t>(steps);
  return {};
}

base::Result<void> check_drop(const Design& design, int workers) {
  const exchange::BigDlDrop& drop = design.bigdl_drop;
  const auto refuse = [](std::string message) {
    return base::fail(base::ErrorKind::invalid_argument, std::move(message));
  };
  for (const char* option : {"max-drop-percentage", "drop-warm-up", "drop-every"}) {
    if (drop.share == 0 && design.options.contains(option)) {
      return refuse(fmt::format("nobody is cut off without --drop-percentage: --{} {}", option,
                                design.options.at(option)));
    }
  }
  if (drop.share > drop.most) {
    return refuse(fmt::format("--drop-percentage {} is more than --max-drop-percentage {}",
                              drop.share, drop.most));
  }
  if (workers > 0 && drop.share > 0 && drop.wanted(workers) == 0) {
    return refuse(fmt::format(
        "cuts nobody off: --drop-percentage {} of {} passes ({} workers, "
        "--drop-every {})",
        drop.share, drop.every * static_cast<std::uint64_t>(workers), workers, drop.every));
  }
  return {};
}

constexpr Option kOptions[] = {
    {"drop-percentage",
     "Share of the passes to cut off as stragglers, a fraction: 0.04 is 4 of 100 (default: 0)",
     accept_drop_percentage},
    {"max-drop-percentage",
     "Where more of a step's passes are cut off, a fraction, it makes no update (default: 0.5)",
     accept_max_drop_percentage},
    {"drop-warm-up", "Steps before stragglers are looked for (default: 200)", accept_drop_warm_up},
    {"drop-every", "Steps between two thresholds for stragglers (default: 100)", accept_drop_every},
};

}  // namespace

const Stack kBigDl = {
    "bigdl",
    make_bigdl,
    make_bigdl_worker,
    make_bigdl_driver,
    bigdl_traffic,
    explain_bigdl,
    "In N workers and P parameters: 2(N-1) messages, 4P(N-1)/N bytes out and in; the driver sends "
    "no payload.",
    "As in BigDL's DistriOptimizer: owners, blocks, pulls and their order, the pool of four, "
    "look-ups and two jobs of N tasks at a real driver process, 16-bit elements and the order of "
    "additions, where the optimizer runs, batches that begin at random offsets, and stragglers cut "
    "off by BigDL's rule where --drop-percentage asks for it. Left out: the JVM, "
    "Spark's scheduler with its serialised tasks (here a launch is one small message), "
    "acknowledgements of registrations, several sub-models per worker, "
    "retries. So the cost of scheduling here is a lower bound of BigDL's.",
    kOptions,
    check_drop,
    &kBigDlImproved,
    nullptr,
    // Spark's block transfer knows TCP alone, and its engine is MKL.
    {.tcp = RunsOn::cpu, .rdma = RunsOn::nothing}};

}  // namespace dlobd::stacks
