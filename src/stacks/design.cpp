#include "stacks/design.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/nearest.h"

namespace dlobd::stacks {
namespace {

constexpr std::size_t kCaffeOnSparkPieceBytes = 256;

base::Failure refuse(std::string message) {
  return base::fail(base::ErrorKind::invalid_argument, std::move(message));
}

// The nearest valid word and all of them, for a message.
std::string instead(std::string_view word, const std::vector<std::string>& valid) {
  return fmt::format("did you mean {}? (there are {}): {}", base::nearest(word, valid),
                     fmt::join(valid, ", "), word);
}

base::Result<Behaviour> parse_behaviour(std::string_view word, std::string_view what) {
  const std::vector<std::string> valid{"faithful", "fixed"};
  if (word == "faithful") return Behaviour::faithful;
  if (word == "fixed") return Behaviour::fixed;
  return refuse(fmt::format("unknown {}, {}", what, instead(word, valid)));
}

Defect defect(std::string name, std::string explanation) {
  Defect made;
  made.name = std::move(name);
  made.explanation = std::move(explanation);
  return made;
}

Design caffeonspark() {
  Design design;
  design.stack = Stack::caffeonspark;
  design.exchange = "cos_shard_push";
  design.batch_rule = BatchRule::per_device;
  design.behaviour = Behaviour::faithful;
  design.defects.push_back(defect(
      "write_256_bytes", "messages are written and read in system calls of at most 256 bytes"));
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

Design allreduce() {
  Design design;
  design.stack = Stack::allreduce;
  design.exchange = "allreduce";
  design.batch_rule = BatchRule::per_worker;
  return design;
}

const Defect* find(const Design& design, std::string_view name) {
  for (const Defect& each : design.defects) {
    if (each.name == name) return &each;
  }
  return nullptr;
}

base::Result<void> set_behaviour(Design& design, std::string_view word) {
  if (!design.behaviour) {
    return refuse(fmt::format("the stack {} has no defects and takes no behaviour: {}",
                              name(design.stack), word));
  }
  DLOBD_TRY(behaviour, parse_behaviour(word, "behaviour"));
  design.behaviour = behaviour;
  for (Defect& each : design.defects) each.behaviour = behaviour;
  return {};
}

base::Result<void> set_defect(Design& design, const std::string& word, std::string_view value) {
  if (design.defects.empty()) {
    return refuse(fmt::format("the stack {} has no defects: {}", name(design.stack), word));
  }
  std::vector<std::string> valid;
  for (const Defect& each : design.defects) valid.push_back(each.name);
  if (find(design, word) == nullptr) {
    return refuse(
        fmt::format("unknown defect of {}, {}", name(design.stack), instead(word, valid)));
  }
  DLOBD_TRY(behaviour, parse_behaviour(value, fmt::format("behaviour of the defect {}", word)));
  for (Defect& each : design.defects) {
    if (each.name == word) each.behaviour = behaviour;
  }
  return {};
}

}  // namespace

bool Design::has_defect(std::string_view defect) const {
  return find(*this, defect) != nullptr;
}

bool Design::faithful(std::string_view defect) const {
  const Defect* found = find(*this, defect);
  CHECK(found != nullptr, "{} has no defect {}", name(stack), defect);
  return found->behaviour == Behaviour::faithful;
}

std::string_view name(Stack stack) {
  switch (stack) {
    case Stack::caffeonspark: return "caffeonspark";
    case Stack::allreduce: return "allreduce";
  }
  return "";
}

std::string_view name(Behaviour behaviour) {
  return behaviour == Behaviour::faithful ? "faithful" : "fixed";
}

std::vector<std::string> stack_names() {
  return {std::string(name(Stack::caffeonspark)), std::string(name(Stack::allreduce))};
}

base::Result<Design> make_design(std::string_view stack, std::optional<std::string> behaviour,
                                 const std::map<std::string, std::string>& defects) {
  Design design;
  if (stack == name(Stack::caffeonspark)) {
    design = caffeonspark();
  } else if (stack == name(Stack::allreduce)) {
    design = allreduce();
  } else {
    return refuse(fmt::format("unknown stack, {}", instead(stack, stack_names())));
  }
  if (behaviour) {
    DLOBD_TRY_VOID(accepted, set_behaviour(design, *behaviour));
  }
  for (const auto& [word, value] : defects) {
    DLOBD_TRY_VOID(accepted, set_defect(design, word, value));
  }
  return design;
}

std::size_t piece_bytes(const Design& design) {
  const bool pieces = design.has_defect("write_256_bytes") && design.faithful("write_256_bytes");
  return pieces ? kCaffeOnSparkPieceBytes : 0;
}

bool loss_is_local(const Design& design) {
  return design.has_defect("loss_local") && design.faithful("loss_local");
}

}  // namespace dlobd::stacks
