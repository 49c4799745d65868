// Our own designs for the stacks whose parameters are sharded over the workers: their owners and
// their arithmetic in float32, but gradients travel during the backward pass and no driver stands
// in the way.
#include <fmt/format.h>

#include <algorithm>

#include "exchange/shard_push.h"
#include "stacks/stack.h"

namespace dlobd::stacks {
namespace {

Design make_improved(const Stack& stack) {
  Design design = stack.design();
  design.exchange = "shard_push";
  design.wire_element = compute::WireElement::float32;
  design.behaviour = Behaviour::improved;
  design.defects.clear();
  design.server_role.clear();
  design.servers = 0;
  return design;
}

Design make_improved_bigdl() {
  return make_improved(kBigDl);
}

Design make_improved_caffeonspark() {
  Design design = make_improved(kCaffeOnSpark);
  design.shard_push.front_loaded = false;
  design.shard_push.in_rank_order = false;
  design.shard_push.scale_first = true;
  return design;
}

std::unique_ptr<exchange::Exchange> make_shard_push(const Design& design,
                                                    exchange::Context context) {
  return std::make_unique<exchange::ShardPush>(context, design.shard_push);
}

// A piece of another goes out as gradients and comes in as weights; an own one comes in as
// gradients from every other rank and goes out to each as weights.
StepTraffic shard_push_traffic(const Design& design, const Views& views, exchange::Layout layout,
                               int rank, bool) {
  const auto peers = static_cast<std::uint64_t>(layout.workers - 1);
  transport::Count once;
  transport::Count to_all;
  for (const exchange::Piece& piece :
       exchange::pieces_of(design.shard_push, views, layout.workers)) {
    const std::uint64_t bytes = piece.range.size() * sizeof(float);
    transport::Count& count = piece.owner == rank ? to_all : once;
    const std::uint64_t times = piece.owner == rank ? peers : 1;
    count.messages += times;
    count.bytes += times * bytes;
  }
  StepTraffic traffic;
  traffic.data_sent.messages = once.messages + to_all.messages;
  traffic.data_sent.bytes = once.bytes + to_all.bytes;
  traffic.data_received = traffic.data_sent;
  return traffic;
}

void explain_shard_push(Page& page, const Design& design, const Views& views,
                        exchange::Layout layout) {
  const auto pieces = exchange::pieces_of(design.shard_push, views, layout.workers);
  std::vector<Owned> owned;
  for (int rank = 0; rank < layout.workers; ++rank) {
    owned.push_back({std::to_string(rank), exchange::shard_of(design.shard_push, elements_of(views),
                                                              layout.workers, rank)});
  }
  ranges_section(page, views, owned);
  page.heading("One step, on every rank r");
  page.paragraph("  compute    ",
                 fmt::format("Forward and backward pass. As soon as gradients of {} together are "
                             "ready, r sends each owner its piece of them ({} pieces in all).",
                             size_text(design.shard_push.bucket_bytes), pieces.size()));
  page.paragraph(
      "  meanwhile  ",
      fmt::format("when all {} gradients of a piece of its slice are there, r takes their mean{} "
                  "and runs SGD on its own copy of the piece, in float32, and sends the new "
                  "weights to all others.",
                  layout.workers,
                  design.shard_push.in_rank_order ? ", adding in the order of the ranks"
                                                  : ", adding own + (r+1) + (r+2) + ..."));
  page.paragraph("  finish     ", "r waits for what the backward pass has not hidden.");
  page.paragraph("  next step  ", "begins when all new weights are there.");
}

constexpr std::string_view kFormula =
    "In N ranks and P parameters: 8P(N-1)/N bytes out and in; one message for each piece that "
    "another owns, and N-1 for each own one.";
constexpr std::string_view kFidelity =
    "Our own design, no system's: the owner of each parameter, the arithmetic in float32 and its "
    "order, and the optimizer at the owner are the stack's; when and how messages travel is not.";

}  // namespace

const Stack kBigDlImproved = {"bigdl",
                              make_improved_bigdl,
                              make_shard_push,
                              nullptr,
                              shard_push_traffic,
                              explain_shard_push,
                              kFormula,
                              kFidelity};

const Stack kCaffeOnSparkImproved = {
    "caffeonspark",     make_improved_caffeonspark, make_shard_push, nullptr,
    shard_push_traffic, explain_shard_push,         kFormula,        kFidelity};

}  // namespace dlobd::stacks
