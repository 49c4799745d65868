#include "stacks/design.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "base/nearest.h"
#include "stacks/stack.h"

namespace dlobd::stacks {
namespace {

constexpr std::size_t kCaffeOnSparkPieceBytes = 256;

base::Failure refuse(std::string message) {
  return base::fail(base::ErrorKind::invalid_argument, std::move(message));
}

// The nearest valid word or all of them, for a message.
std::string instead(std::string_view word, const std::vector<std::string>& valid) {
  return fmt::format("{}: {}", base::suggestion(word, valid), word);
}

// Of a defect, or, where an improved design is to be had, of the stack.
base::Result<Behaviour> parse_behaviour(std::string_view word, std::string_view what,
                                        bool improvable) {
  std::vector<Behaviour> valid{Behaviour::faithful, Behaviour::fixed};
  if (improvable) valid.push_back(Behaviour::improved);
  std::vector<std::string> names;
  for (const Behaviour each : valid) {
    if (word == name(each)) return each;
    names.emplace_back(name(each));
  }
  return refuse(fmt::format("unknown {}, {}", what, instead(word, names)));
}

const Defect* find(const Design& design, std::string_view name) {
  for (const Defect& each : design.defects) {
    if (each.name == name) return &each;
  }
  return nullptr;
}

base::Result<void> set_behaviour(Design& design, std::string_view word) {
  if (!design.behaviour) {
    return refuse(
        fmt::format("the stack {} has no defects and takes no behaviour: {}", design.stack, word));
  }
  const Stack* improved = stack_named(design.stack).improved;
  if (word == name(Behaviour::improved) && improved == nullptr) {
    return refuse(fmt::format("there is no improved design of the stack {}", design.stack));
  }
  DLOBD_TRY(behaviour, parse_behaviour(word, "behaviour", improved != nullptr));
  if (behaviour == Behaviour::improved) design = improved->design();
  design.behaviour = behaviour;
  for (Defect& each : design.defects) each.behaviour = behaviour;
  return {};
}

base::Result<void> set_defect(Design& design, const std::string& word, std::string_view value) {
  if (design.behaviour == Behaviour::improved) {
    return refuse(
        fmt::format("the improved design of the stack {} has no defects: {}", design.stack, word));
  }
  if (design.defects.empty()) {
    return refuse(fmt::format("the stack {} has no defects: {}", design.stack, word));
  }
  std::vector<std::string> valid;
  for (const Defect& each : design.defects) valid.push_back(each.name);
  if (find(design, word) == nullptr) {
    return refuse(fmt::format("unknown defect of {}, {}", design.stack, instead(word, valid)));
  }
  DLOBD_TRY(behaviour,
            parse_behaviour(value, fmt::format("behaviour of the defect {}", word), false));
  for (Defect& each : design.defects) {
    if (each.name == word) each.behaviour = behaviour;
  }
  return {};
}

base::Result<void> set_option(Design& design, const std::string& word, std::string_view value) {
  for (const Option& each : stack_of(design).options) {
    if (each.name != word) continue;
    auto accepted = each.accept(design, value);
    if (accepted) {
      design.options[word] = value;
      return accepted;
    }
    return refuse(fmt::format("{}: --{} {}", accepted.error().message, word, value));
  }
  if (design.behaviour == Behaviour::improved) {
    return refuse(fmt::format("the improved design of the stack {} takes no --{}: {}", design.stack,
                              word, value));
  }
  return refuse(fmt::format("the stack {} takes no --{}: {}", design.stack, word, value));
}

// A stack's own element may be said for any stack.
base::Result<void> set_wire_element(Design& design, std::string_view word) {
  DLOBD_TRY(element, compute::parse_wire_element(word));
  if (element == design.wire_element) return {};
  if (stack_of(design).takes_wire_element) {
    design.wire_element = element;
    return {};
  }
  std::vector<std::string> others;
  for (const Stack* each : all_stacks()) {
    if (!each->takes_wire_element) continue;
    const bool always = each->improved == nullptr || each->improved->takes_wire_element;
    others.push_back(fmt::format("{}{}", each->name, always ? "" : " (faithful or fixed)"));
  }
  const bool improved = design.behaviour == Behaviour::improved;
  return refuse(
      fmt::format("{} {} has {} on the wire and takes no other element; {} do: --wire-element {}",
                  improved ? "the improved design of the stack" : "the stack", design.stack,
                  compute::name(design.wire_element), fmt::join(others, ", "), word));
}

}  // namespace

Defect defect(std::string name, std::string explanation) {
  Defect made;
  made.name = std::move(name);
  made.explanation = std::move(explanation);
  return made;
}

base::Result<std::int64_t> whole_number(std::string_view value, std::int64_t least,
                                        std::int64_t most) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < least ||
      number > most) {
    return refuse(fmt::format("must be a whole number from {} to {}", least, most));
  }
  return number;
}

base::Result<double> share(std::string_view value) {
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || !(number >= 0 && number < 1)) {
    return refuse("must be a fraction from 0 to below 1 (0.04 is 4 of 100)");
  }
  return number;
}

bool Design::has_defect(std::string_view defect) const {
  return find(*this, defect) != nullptr;
}

bool Design::faithful(std::string_view defect) const {
  const Defect* found = find(*this, defect);
  CHECK(found != nullptr, "{} has no defect {}", stack, defect);
  return found->behaviour == Behaviour::faithful;
}

std::string_view Design::role(exchange::Layout layout, int rank) const {
  return layout.is_worker(rank) ? std::string_view("worker") : server_role;
}

std::string_view name(Behaviour behaviour) {
  switch (behaviour) {
    case Behaviour::faithful: return "faithful";
    case Behaviour::fixed: return "fixed";
    case Behaviour::improved: return "improved";
  }
  return "unknown";
}

base::Result<Design> make_design(std::string_view stack, const Choices& choices) {
  const auto valid = stack_names();
  if (std::find(valid.begin(), valid.end(), stack) == valid.end()) {
    return refuse(fmt::format("unknown stack, {}", instead(stack, valid)));
  }
  const Stack& named = stack_named(stack);
  Design design = choices.rdma && named.rdma != nullptr ? named.rdma() : named.design();
  if (choices.behaviour) {
    DLOBD_TRY_VOID(accepted, set_behaviour(design, *choices.behaviour));
  }
  for (const auto& [word, value] : choices.defects) {
    DLOBD_TRY_VOID(accepted, set_defect(design, word, value));
  }
  for (const auto& [word, value] : choices.options) {
    DLOBD_TRY_VOID(accepted, set_option(design, word, value));
  }
  if (choices.wire_element) {
    DLOBD_TRY_VOID(accepted, set_wire_element(design, *choices.wire_element));
  }
  DLOBD_TRY_VOID(sensible, check_workers(design, 0));
  return design;
}

base::Result<void> check_workers(const Design& design, int workers) {
  const auto check = stack_of(design).check;
  return check == nullptr ? base::Result<void>() : check(design, workers);
}

std::size_t piece_bytes(const Design& design) {
  const bool pieces = design.has_defect("write_256_bytes") && design.faithful("write_256_bytes");
  return pieces ? kCaffeOnSparkPieceBytes : 0;
}

bool feeds_records(const Design& design) {
  return design.has_defect("record_feed") && design.faithful("record_feed");
}

bool loss_is_local(const Design& design) {
  return design.has_defect("loss_local") && design.faithful("loss_local");
}

}  // namespace dlobd::stacks
