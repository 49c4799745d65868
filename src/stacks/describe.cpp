// The frame of the page that `dlobd describe` prints; each stack explains itself within.
#include <fmt/format.h>

#include <algorithm>

#include "stacks/stack.h"

namespace dlobd::stacks {
namespace {

// "0", "ps 2"
std::string rank_text(const Design& design, exchange::Layout layout, int rank) {
  if (layout.is_worker(rank)) return std::to_string(rank);
  return fmt::format("{} {}", design.role(layout, rank), rank);
}

// The workers, as far as the page holds them, and after them the servers.
std::vector<int> shown_ranks(exchange::Layout layout) {
  std::vector<int> ranks;
  for (int rank = 0; rank < std::min(layout.workers, kMostRows); ++rank) ranks.push_back(rank);
  for (int rank = layout.workers; rank < layout.world_size(); ++rank) ranks.push_back(rank);
  return ranks;
}

void table(Page& page, const char* title, const Design& design, const Views& views,
           exchange::Layout layout, transport::Count StepTraffic::*sent,
           transport::Count StepTraffic::*received) {
  page.heading(title);
  page.line(fmt::format("  {:>9}  {:>12}  {:>15}  {:>12}  {:>15}", "rank", "messages out",
                        "bytes out", "messages in", "bytes in"));
  for (const int rank : shown_ranks(layout)) {
    const StepTraffic each = step_traffic(design, views, layout, rank);
    page.line(fmt::format("  {:>9}  {:>12}  {:>15}  {:>12}  {:>15}",
                          rank_text(design, layout, rank), grouped((each.*sent).messages),
                          grouped((each.*sent).bytes), grouped((each.*received).messages),
                          grouped((each.*received).bytes)));
  }
  page.more_rows(static_cast<std::size_t>(layout.workers));
  transport::Count all;
  for (int rank = 0; rank < layout.world_size(); ++rank) {
    const StepTraffic each = step_traffic(design, views, layout, rank);
    all.messages += (each.*sent).messages;
    all.bytes += (each.*sent).bytes;
  }
  page.line(fmt::format("  All ranks together: {}, {}.", counted(all.messages, "message"),
                        size_text(all.bytes)));
}

bool has_control(const Design& design, const Views& views, exchange::Layout layout) {
  for (int rank = 0; rank < layout.world_size(); ++rank) {
    if (step_traffic(design, views, layout, rank).control_sent.messages > 0) return true;
  }
  return false;
}

// "float32", "bfloat16 gradients, with error feedback,"
std::string wire_text(const Design& design) {
  const Design own = stack_of(design).design();
  if (design.wire_element == own.wire_element) return std::string(name(design.wire_element));
  return fmt::format("{} gradients, with error feedback,", name(design.wire_element));
}

void defects(Page& page, const Design& design) {
  page.heading("Defects of the real stack");
  for (const Defect& each : design.defects) {
    page.paragraph(
        fmt::format("  {:<20} {:<9} ", each.name, name(each.behaviour)),
        each.behaviour == Behaviour::faithful ? each.explanation : "off; on: " + each.explanation);
  }
}

}  // namespace

std::string describe(const Design& design, std::string_view model,
                     const std::vector<compute::ParameterView>& views, int workers,
                     const std::optional<std::string>& hypothetical) {
  const Stack& stack = stack_of(design);
  const exchange::Layout layout = design.layout(workers);
  const std::size_t elements = elements_of(views);
  Page page;
  page.line(design.behaviour ? fmt::format("{} ({})", design.stack, name(*design.behaviour))
                             : design.stack);
  if (hypothetical) page.paragraph("  hypothetical: ", *hypothetical);
  page.line(fmt::format("  model       {}: {} parameters, {}", model, grouped(elements),
                        size_text(elements * sizeof(float))));
  page.line(fmt::format("  ranks       {}", workers));
  if (layout.servers > 0) {
    page.line(fmt::format("  and         {} of role {}, after the workers", layout.servers,
                          design.server_role));
  }
  page.line(fmt::format("  exchange    {}, {} on the wire", design.exchange, wire_text(design)));
  page.line(fmt::format("  batch size  {}", name(design.batch_rule)));
  stack.explain(page, design, views, layout);
  table(page, "Per rank and step", design, views, layout, &StepTraffic::data_sent,
        &StepTraffic::data_received);
  page.paragraph("  ", stack.formula);
  if (has_control(design, views, layout)) {
    table(page, "Control messages per rank and step", design, views, layout,
          &StepTraffic::control_sent, &StepTraffic::control_received);
  }
  if (!design.defects.empty()) defects(page, design);
  page.heading("Fidelity");
  page.paragraph("  ", stack.fidelity);
  return page.text();
}

}  // namespace dlobd::stacks
