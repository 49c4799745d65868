// The page that `dlobd describe` prints: at most 100 columns, the figures computed for this model
// and number of ranks.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "exchange/slices.h"
#include "stacks/design.h"

namespace dlobd::stacks {
namespace {

constexpr int kMostRows = 16;
constexpr std::size_t kColumns = 100;
constexpr double kMiB = 1 << 20;

std::string grouped(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

std::string size_text(std::uint64_t bytes) {
  return fmt::format("{:.2f} MiB ({} bytes)", static_cast<double>(bytes) / kMiB, grouped(bytes));
}

class Page {
 public:
  void heading(std::string_view text) { fmt::format_to(std::back_inserter(text_), "\n{}\n", text); }
  void line(std::string_view text) { fmt::format_to(std::back_inserter(text_), "{}\n", text); }
  // Words, broken at the page's width; the lines after the first start below the text of the first.
  void paragraph(std::string_view first, std::string_view words) {
    std::string current(first);
    const std::string indent(first.size(), ' ');
    bool empty = true;
    while (!words.empty()) {
      const std::size_t space = words.find(' ');
      const std::string_view word = words.substr(0, space);
      if (!empty && current.size() + 1 + word.size() > kColumns) {
        line(current);
        current = indent;
        empty = true;
      }
      if (!empty) current += ' ';
      current += word;
      empty = false;
      words = space == std::string_view::npos ? std::string_view() : words.substr(space + 1);
    }
    line(current);
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

using Views = std::vector<compute::ParameterView>;

std::size_t elements_of(const Views& views) {
  std::size_t elements = 0;
  for (const compute::ParameterView& view : views) elements += view.size;
  return elements;
}

// "conv1.weight .. fc1.weight"
std::string names_in(const Views& views, compute::Range range) {
  std::string first;
  std::string last;
  for (const compute::ParameterView& view : views) {
    if (view.offset >= range.end || view.offset + view.size <= range.begin) continue;
    if (first.empty()) first = view.name;
    last = view.name;
  }
  if (first.empty()) return "nothing";
  return first == last ? first : fmt::format("{} .. {}", first, last);
}

void more_rows(Page& page, int rows) {
  if (rows > kMostRows) page.line(fmt::format("  ... and {} more", rows - kMostRows));
}

void slices(Page& page, const Views& views, int world_size) {
  const std::size_t elements = elements_of(views);
  page.heading("Who owns what");
  page.line(fmt::format("  {:>4}  {:>25}  {:>13}  {}", "rank", "elements", "count", "lies in"));
  for (int rank = 0; rank < std::min(world_size, kMostRows); ++rank) {
    const compute::Range range = exchange::slice(elements, world_size, rank);
    page.line(fmt::format("  {:>4}  {:>25}  {:>13}  {}", rank,
                          fmt::format("{} .. {}", grouped(range.begin), grouped(range.end)),
                          grouped(range.size()), names_in(views, range)));
  }
  more_rows(page, world_size);
}

void traffic(Page& page, const Design& design, const Views& views, int world_size) {
  page.heading("Per rank and step");
  page.line(fmt::format("  {:>4}  {:>12}  {:>15}  {:>12}  {:>15}", "rank", "messages out",
                        "bytes out", "messages in", "bytes in"));
  StepTraffic all;
  for (int rank = 0; rank < world_size; ++rank) {
    const StepTraffic each = step_traffic(design, views, world_size, rank);
    all.messages_sent += each.messages_sent;
    all.bytes_sent += each.bytes_sent;
    if (rank >= kMostRows) continue;
    page.line(fmt::format("  {:>4}  {:>12}  {:>15}  {:>12}  {:>15}", rank,
                          grouped(each.messages_sent), grouped(each.bytes_sent),
                          grouped(each.messages_received), grouped(each.bytes_received)));
  }
  more_rows(page, world_size);
  page.line(fmt::format("  All ranks together: {} messages, {}.", grouped(all.messages_sent),
                        size_text(all.bytes_sent)));
  page.paragraph("  ",
                 design.stack == Stack::caffeonspark
                     ? "In N ranks and P parameters: 2(N-1) messages, 8P(N-1)/N bytes out and in."
                     : "In N ranks and n elements of a bucket: ring 2(N-1) chunks in segments, "
                       "8n(N-1)/N bytes; doubling log2 N messages, 4n log2 N bytes.");
}

void cos_steps(Page& page, const Design& design, int world_size) {
  page.heading("One step, on every rank r: two rounds");
  const int peers = world_size - 1;
  page.paragraph("  weights    ",
                 fmt::format("r sends its slice of the weights to r+1, r+2, ... ({} messages) and "
                             "waits for theirs. The model is whole now.",
                             peers));
  page.paragraph("  compute    ", "Forward and backward pass. Nothing moves meanwhile.");
  page.paragraph("  gradients  ",
                 fmt::format("r divides all its gradients by {}, sends each owner the part that it "
                             "owns ({} messages), and adds the parts that arrive to its own slice: "
                             "own + (r+1) + (r+2) + ...",
                             world_size, peers));
  page.paragraph("  update     ",
                 design.faithful("optimizer_full")
                     ? "SGD over all parameters. Only the own slice is right afterwards; the next "
                       "step's weights repair the others."
                     : "SGD over the own slice.");
  page.paragraph("             ", "There is no barrier: the two waits act as one.");
}

std::string_view algorithm(const Design& design, std::size_t elements, int world_size) {
  const bool is_ring = exchange::chosen(design.all_reduce.collective, world_size, elements) ==
                       exchange::Algorithm::ring;
  return is_ring ? "ring" : "recursive doubling";
}

void allreduce_steps(Page& page, const Design& design, const Views& views, int world_size) {
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
    page.line(fmt::format("  {:>6}  {:<28}  {:>13}  {:<18}  {:>8}", i,
                          names_in(views, all[i].range), grouped(elements * sizeof(float)),
                          world_size == 1 ? "none" : algorithm(design, elements, world_size),
                          grouped(bucket_traffic(design, elements, world_size, 0).messages_sent)));
  }
  more_rows(page, static_cast<int>(all.size()));
  page.line("  (messages: those that rank 0 sends)");
}

void defects(Page& page, const Design& design) {
  page.heading("Defects of the real stack");
  for (const Defect& each : design.defects) {
    page.paragraph(
        fmt::format("  {:<20} {:<9} ", each.name, name(each.behaviour)),
        each.behaviour == Behaviour::faithful ? each.explanation : "off; on: " + each.explanation);
  }
}

void cos_fidelity(Page& page) {
  page.heading("Fidelity");
  page.paragraph("  ",
                 "As in CaffeOnSpark's socket variant: owners, order of sends, receives and "
                 "additions, scaling before sending, number and size of messages, where the "
                 "optimizer runs. Left out: the JVM, JNI and Spark around it, its headers and its "
                 "one thread per connection, and its silence when a peer is lost: here every "
                 "survivor names the lost rank.");
}

void allreduce_fidelity(Page& page) {
  page.heading("Fidelity");
  page.paragraph("  ",
                 "A design of today for comparison, not a copy of a product: overlapped buckets as "
                 "PyTorch's DistributedDataParallel and Horovod have them, ring and recursive "
                 "doubling as MPI libraries have them. The sum is scaled by 1/N after the last "
                 "addition.");
}

}  // namespace

std::string describe(const Design& design, std::string_view model,
                     const std::vector<compute::ParameterView>& views, int world_size) {
  const std::size_t elements = elements_of(views);
  Page page;
  page.line(design.behaviour ? fmt::format("{} ({})", name(design.stack), name(*design.behaviour))
                             : std::string(name(design.stack)));
  page.line(fmt::format("  model       {}: {} parameters, {}", model, grouped(elements),
                        size_text(elements * sizeof(float))));
  page.line(fmt::format("  ranks       {}", world_size));
  page.line(fmt::format("  exchange    {}, float32 on the wire", design.exchange));
  page.line(fmt::format("  batch size  {}", name(design.batch_rule)));
  if (design.stack == Stack::caffeonspark) {
    slices(page, views, world_size);
    cos_steps(page, design, world_size);
  } else {
    allreduce_steps(page, design, views, world_size);
  }
  traffic(page, design, views, world_size);
  if (!design.defects.empty()) defects(page, design);
  if (design.stack == Stack::caffeonspark) {
    cos_fidelity(page);
  } else {
    allreduce_fidelity(page);
  }
  return page.text();
}

}  // namespace dlobd::stacks
