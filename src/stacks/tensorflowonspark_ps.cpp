// TensorFlowOnSpark with TensorFlow 1's parameter servers.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "exchange/tf_ps_server.h"
#include "stacks/stack.h"

namespace dlobd::stacks {
namespace {

using exchange::TfPsOptions;
using exchange::tf_ps::Placement;

constexpr int kMostServers = 1024;
// Smaller variables share a message when improved: sending one costs as much as some 20 KiB,
// packing and unpacking it costs twice its bytes.
constexpr std::size_t kPackBelowBytes = 64 * 1024;

Design make() {
  Design design;
  design.stack = "tensorflowonspark_ps";
  design.exchange = "tf_ps";
  design.batch_rule = BatchRule::per_worker;
  design.order = batches::Order::as_stored;  // the partitions are fed as they come, every epoch
  design.behaviour = Behaviour::faithful;
  design.server_role = "ps";
  design.servers = 1;
  design.options = {{"updates", "asynchronous"}};
  design.defects.push_back(defect(
      "record_feed", "records reach the worker one by one, through a queue between processes"));
  design.defects.push_back(
      defect("arrival_order",
             "of synchronous updates alone, without effect on asynchronous ones: gradients are "
             "added in the order in which they come, so that no two runs are the same"));
  return design;
}

Design make_improved() {
  Design design = make();
  design.behaviour = Behaviour::improved;
  design.defects.clear();
  design.tf_ps.requests = false;
  design.tf_ps.pack_below_bytes = kPackBelowBytes;
  return design;
}

TfPsOptions options_of(const Design& design) {
  TfPsOptions options = design.tf_ps;
  options.arrival_order = design.has_defect("arrival_order") && design.faithful("arrival_order");
  return options;
}

std::unique_ptr<exchange::Exchange> make_worker(const Design& design, exchange::Context context) {
  return std::make_unique<exchange::TfPs>(context, options_of(design));
}

std::unique_ptr<exchange::Service> make_server(const Design& design, exchange::Context context) {
  return std::make_unique<exchange::TfPsServer>(context, options_of(design));
}

void add(transport::Count& count, std::uint64_t messages, std::uint64_t bytes) {
  count.messages += messages;
  count.bytes += bytes;
}

// Between one worker and one server, as the worker counts it.
StepTraffic with_server(const Design& design, const Placement& placement, exchange::Layout layout,
                        int server) {
  const std::uint64_t batches = placement.batches(server).size();
  const std::uint64_t bytes = placement.owned(server) * sizeof(float);
  StepTraffic traffic;
  if (batches == 0) return traffic;
  add(traffic.data_received, batches, bytes);
  add(traffic.data_sent, batches, bytes);
  add(traffic.control_sent, 1, exchange::tf_ps::kRunStepBytes);
  if (design.tf_ps.requests) {
    add(traffic.control_sent, batches, 0);      // for weights
    add(traffic.control_received, batches, 0);  // for gradients
  }
  add(traffic.control_received, 1, exchange::tf_ps::kStepDoneBytes);
  if (design.tf_ps.max_staleness && server == layout.workers) add(traffic.control_received, 1, 0);
  return traffic;
}

StepTraffic traffic(const Design& design, const Views& views, exchange::Layout layout, int rank,
                    bool) {
  const Placement placement(views, layout, design.tf_ps.pack_below_bytes);
  StepTraffic traffic;
  if (layout.is_worker(rank)) {
    for (const int server : placement.owners()) {
      traffic += with_server(design, placement, layout, server);
    }
    return traffic;
  }
  StepTraffic each = with_server(design, placement, layout, rank);
  std::swap(each.data_sent, each.data_received);
  std::swap(each.control_sent, each.control_received);
  for (int worker = 0; worker < layout.workers; ++worker) traffic += each;
  return traffic;
}

void owners_section(Page& page, const Views& views, exchange::Layout layout) {
  const Placement placement(views, layout);
  page.heading("Who owns what");
  page.paragraph("  ",
                 "Whole variables with their optimizer slots, dealt round-robin over the servers. "
                 "No variable is cut, so one large one makes its server the hot spot.");
  page.line(fmt::format("  {:>9}  {:>9}  {:>15}  {:>7}  {}", "server", "variables", "bytes",
                        "share", "largest"));
  const auto all = static_cast<double>(elements_of(views));
  for (int server = layout.workers; server < layout.world_size(); ++server) {
    if (server - layout.workers == kMostRows) break;
    const auto& variables = placement.variables(server);
    const auto largest = std::max_element(
        variables.begin(), variables.end(),
        [&](std::size_t a, std::size_t b) { return views[a].size < views[b].size; });
    page.line(fmt::format("  {:>9}  {:>9}  {:>15}  {:>6.1f}%  {}", fmt::format("ps {}", server),
                          variables.size(), grouped(placement.owned(server) * sizeof(float)),
                          100 * static_cast<double>(placement.owned(server)) / all,
                          largest == variables.end() ? std::string("-") : views[*largest].name));
  }
  page.more_rows(static_cast<std::size_t>(layout.servers));
}

void explain(Page& page, const Design& design, const Views& views, exchange::Layout layout) {
  const TfPsOptions options = options_of(design);
  owners_section(page, views, layout);
  page.heading("One step, on every worker");
  page.paragraph("  start      ",
                 options.requests
                     ? "Tells each server that its step begins; the server asks at once for the "
                       "gradient of each of its variables."
                     : "Tells each server that its step begins.");
  if (options.max_staleness) {
    page.paragraph("  go         ",
                   fmt::format("Waits until the slowest worker is at most {} steps behind.",
                               *options.max_staleness));
  }
  const std::size_t batches = Placement(views, layout, options.pack_below_bytes).batches().size();
  page.paragraph(
      "  weights    ",
      options.requests
          ? fmt::format("Asks for each of the {} variables and waits for all.", views.size())
          : fmt::format("Waits for the {} messages that the servers send unasked: a large variable "
                        "has its own, those below {} KiB share one.",
                        batches, options.pack_below_bytes / 1024));
  page.paragraph("  compute    ",
                 options.requests
                     ? "Forward and backward pass. A gradient goes to its server as soon as it is "
                       "ready and asked for, beside the backward pass."
                     : "Forward and backward pass. What is ready goes to its server at once, "
                       "beside the backward pass, in as many messages.");
  if (!options.synchronous()) {
    page.paragraph("  update     ",
                   "The server applies each gradient when it comes, at the full learning rate, "
                   "without waiting for other workers and without averaging.");
    page.paragraph("  finish     ", "Waits until all of its own gradients are applied.");
    return;
  }
  page.paragraph(
      "  update     ",
      fmt::format("The server adds up what comes for a variable ({}). With the gradients of {} of "
                  "{} workers it applies their mean, once; one that comes later is dropped.",
                  options.arrival_order ? "in order of arrival" : "in order of ranks",
                  layout.workers - options.backup_workers, layout.workers));
  page.paragraph("  finish     ", "Waits for a token of each server: the update is made.");
}

base::Result<void> accept_ps(Design& design, std::string_view value) {
  DLOBD_TRY(servers, whole_number(value, 1, kMostServers));
  design.servers = static_cast<int>(servers);
  return {};
}

base::Result<void> accept_updates(Design& design, std::string_view value) {
  if (value == "asynchronous") {
    design.tf_ps.updates = TfPsOptions::Updates::asynchronous;
  } else if (value == "synchronous") {
    design.tf_ps.updates = TfPsOptions::Updates::synchronous;
  } else {
    return base::fail(base::ErrorKind::invalid_argument, "must be asynchronous or synchronous");
  }
  return {};
}

base::Result<void> accept_backup_workers(Design& design, std::string_view value) {
  DLOBD_TRY(workers, whole_number(value, 0, 65535));
  design.tf_ps.backup_workers = static_cast<int>(workers);
  return {};
}

base::Result<void> accept_max_staleness(Design& design, std::string_view value) {
  DLOBD_TRY(steps, whole_number(value, 0, 1'000'000));
  design.tf_ps.max_staleness = static_cast<std::uint64_t>(steps);
  return {};
}

base::Result<void> check(const Design& design, int workers) {
  const TfPsOptions& options = design.tf_ps;
  const auto refuse = [](std::string message) {
    return base::fail(base::ErrorKind::invalid_argument, std::move(message));
  };
  if (options.backup_workers > 0 && !options.synchronous()) {
    return refuse("only synchronous updates have --backup-workers: add --updates synchronous");
  }
  if (options.max_staleness && options.synchronous()) {
    return refuse("synchronous updates are never stale: leave --max-staleness out");
  }
  if (workers > 0 && options.backup_workers >= workers) {
    return refuse(fmt::format("leaves no worker to wait for among {}: --backup-workers {}", workers,
                              options.backup_workers));
  }
  return {};
}

constexpr Option kOptions[] = {
    {"ps", "Parameter servers, beside the workers (default: 1)", accept_ps},
    {"updates", "asynchronous (default), or synchronous", accept_updates},
    {"backup-workers", "Synchronous: gradients that an update does not wait for",
     accept_backup_workers},
    {"max-staleness", "Asynchronous: steps that a worker may be ahead of the slowest",
     accept_max_staleness},
};

}  // namespace

const Stack kTensorFlowOnSparkPs = {
    "tensorflowonspark_ps",
    make,
    make_worker,
    make_server,
    traffic,
    explain,
    "With W workers, S servers that own something, V variables and P parameters: a worker has V "
    "messages and 4P bytes in and as many out; V + S small ones out and in. The servers together "
    "have W times that.",
    "As in TensorFlow 1 under TensorFlowOnSpark: placement of variables and slots, who asks whom, "
    "one message for each variable and direction, updates on arrival or by accumulators with "
    "stale gradients dropped, tokens, optimizer on the server. Otherwise here: a variable is never "
    "read while it is written (use_locking); the accumulators take one gradient of a worker for "
    "each update, and a token names the newest step, where TensorFlow's queue may hand out an "
    "older "
    "one; each server gives its own tokens, without the chief between. Left out: gRPC and its "
    "protobuf frames, Python and its pickled records (the trips of a record between processes are "
    "made), TensorFlow's graph executor, and Spark, which moves no parameters.",
    kOptions,
    check,
    &kTensorFlowOnSparkPsImproved};

const Stack kTensorFlowOnSparkPsImproved = {
    "tensorflowonspark_ps",
    make_improved,
    make_worker,
    make_server,
    traffic,
    explain,
    "With W workers, S servers that own something and P parameters in B messages (each large "
    "variable, and the small ones of a server together): a worker has B messages and 4P bytes in "
    "and as many out; S small ones out and in. The servers together have W times that.",
    "Our own: owners, updates, staleness, tokens and arithmetic as in tensorflowonspark_ps. "
    "Senders do not wait to be asked, small variables share a message, and synchronous updates add "
    "in the order of the ranks.",
    kOptions,
    check};

}  // namespace dlobd::stacks
