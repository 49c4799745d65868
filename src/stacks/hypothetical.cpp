#include <fmt/format.h>

#include "stacks/stack.h"

namespace dlobd::stacks {
namespace {

using Kind = compute::Processor::Kind;

bool runs_on(RunsOn reality, const compute::Processor& processor) {
  if (reality == RunsOn::both || reality == RunsOn::nothing) return reality == RunsOn::both;
  if (processor.kind == Kind::profile) return true;
  return processor.is_gpu() == (reality == RunsOn::gpu);
}

}  // namespace

std::optional<std::string> hypothetical(const Design& design, bool rdma,
                                        const compute::Processor& processor) {
  const Reality& reality = stack_named(design.stack).reality;
  const RunsOn here = rdma ? reality.rdma : reality.tcp;
  if (runs_on(here, processor)) return std::nullopt;
  const char* device = processor.is_gpu() ? "GPU" : "CPU";
  const bool other_network = runs_on(rdma ? reality.tcp : reality.rdma, processor);
  if (here == RunsOn::nothing) {
    return fmt::format("the real {} does not run over {}{}", design.stack, rdma ? "rdma" : "tcp",
                       other_network ? "" : fmt::format(", nor on a {}", device));
  }
  return other_network ? fmt::format("the real {} does not run over {} on a {}", design.stack,
                                     rdma ? "rdma" : "tcp", device)
                       : fmt::format("the real {} does not run on a {}", design.stack, device);
}

}  // namespace dlobd::stacks
