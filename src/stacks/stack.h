// What a stack has to say, one file each (caffeonspark.cpp, bigdl.cpp, ...): its design with every
// defect faithful, its protocol, its closed form and its part of the page. catalogue.cpp lists
// them.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "exchange/exchange.h"
#include "exchange/service.h"
#include "stacks/design.h"
#include "stacks/page.h"

namespace dlobd::stacks {

// One choice beyond the behaviour. `accept` checks the value and keeps it in the design; its error
// says what is wrong with the value, not which option it was.
struct Option {
  std::string_view name;  // "ps"
  std::string_view help;
  base::Result<void> (*accept)(Design&, std::string_view value);
};

// On what the real stack runs, by the network that joins its processors.
enum class RunsOn { nothing, cpu, gpu, both };
struct Reality {
  RunsOn tcp = RunsOn::both;
  RunsOn rdma = RunsOn::both;
};

struct Stack {
  std::string_view name;  // as --stack takes it
  Design (*design)();
  std::unique_ptr<exchange::Exchange> (*exchange)(const Design&, exchange::Context);
  // Of the ranks that are no workers; null where the design has none.
  std::unique_ptr<exchange::Service> (*service)(const Design&, exchange::Context);
  // In a step after the first; `first`: in the first, which may move more (registrations).
  StepTraffic (*traffic)(const Design&, const Views&, exchange::Layout, int rank, bool first);
  // Who owns what, and one step.
  void (*explain)(Page&, const Design&, const Views&, exchange::Layout);
  std::string_view formula;   // of the traffic, in words
  std::string_view fidelity;  // what is as in the real stack, what is left out
  std::span<const Option> options = {};
  // Of all that was chosen together; `workers` 0: not known yet. Null: nothing to refuse.
  base::Result<void> (*check)(const Design&, int workers) = nullptr;
  // The design that --behaviour improved stands for, under the same name; null where there is none.
  const Stack* improved = nullptr;
  // The design over a network of one-sided writes; null: the same.
  Design (*rdma)() = nullptr;
  // Of the stack, whatever its behaviour.
  Reality reality = {};
  // --wire-element: of its gradients, in this behaviour; otherwise its own alone.
  bool takes_wire_element = false;
};

std::span<const Stack* const> all_stacks();
// CHECKs that it is listed.
const Stack& stack_named(std::string_view name);
// Whose design it is: the one of that name, or its improved one.
const Stack& stack_of(const Design& design);

extern const Stack kCaffeOnSpark;
extern const Stack kBigDl;
extern const Stack kBigDlImproved;
extern const Stack kCaffeOnSparkImproved;
extern const Stack kAllReduce;
extern const Stack kTensorFlowOnSpark;
extern const Stack kTensorFlowOnSparkImproved;
extern const Stack kTensorFlowOnSparkPs;
extern const Stack kTensorFlowOnSparkPsImproved;

// A whole number from `least` to `most`, for options.
base::Result<std::int64_t> whole_number(std::string_view value, std::int64_t least,
                                        std::int64_t most);
// A fraction from 0 to below 1.
base::Result<double> share(std::string_view value);

// A defect that is faithful.
Defect defect(std::string name, std::string explanation);

}  // namespace dlobd::stacks
