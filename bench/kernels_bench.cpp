// The kernels that exchanges and optimizers spend their arithmetic in, from the cache to main
// memory. A rate counts every byte that is read or written once.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "compute/arena.h"
#include "compute/kernels.h"

namespace dlobd::compute {
namespace {

// Two buffers, page-aligned as in a replica; touched, so that no page fault is measured.
ParameterArena arena_of(std::int64_t bytes) {
  ParameterSpec spec;
  spec.name = "buffer";
  spec.shape = {bytes / static_cast<std::int64_t>(sizeof(float))};
  ParameterArena arena({spec});
  std::fill(arena.parameters().begin(), arena.parameters().end(), 0.5F);
  std::fill(arena.gradients().begin(), arena.gradients().end(), 0.5F);
  return arena;
}

void count(benchmark::State& state, int touched) {
  state.SetBytesProcessed(state.iterations() * state.range(0) * touched);
}

void add(benchmark::State& state) {
  const auto arena = arena_of(state.range(0));
  for (auto _ : state) {
    cpu_kernels().add(arena.parameters(), arena.gradients());
    benchmark::ClobberMemory();
  }
  count(state, 3);
}

void scale(benchmark::State& state) {
  const auto arena = arena_of(state.range(0));
  for (auto _ : state) {
    cpu_kernels().scale(arena.parameters(), 0.5F);
    benchmark::ClobberMemory();
  }
  count(state, 2);
}

void sgd(benchmark::State& state) {
  const auto arena = arena_of(state.range(0));
  const auto momentum = arena_of(state.range(0));
  SgdStep step;
  step.learning_rate = 0.01F;
  step.momentum = 0.9F;
  step.weight_decay = 5e-4F;
  for (auto _ : state) {
    cpu_kernels().sgd(arena.parameters(), arena.gradients(), momentum.parameters(), step);
    benchmark::ClobberMemory();
  }
  count(state, 5);
}

void adagrad(benchmark::State& state) {
  const auto arena = arena_of(state.range(0));
  const auto accumulator = arena_of(state.range(0));
  for (float& a : accumulator.parameters()) a = 0.1F;
  for (auto _ : state) {
    cpu_kernels().adagrad(arena.parameters(), arena.gradients(), accumulator.parameters(), 0.01F);
    benchmark::ClobberMemory();
  }
  count(state, 5);
}

void truncate(benchmark::State& state) {
  const auto arena = arena_of(state.range(0));
  std::vector<std::uint16_t> upper(arena.size());
  for (auto _ : state) {
    cpu_kernels().truncate(upper, arena.parameters());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * 3 / 2);
}

// From 4 KiB to 100 MiB, LeNet's gradient among them.
void sizes(benchmark::internal::Benchmark* benchmark) {
  for (const std::int64_t bytes : {4L << 10, 64L << 10, 1'724'320L, 16L << 20, 100L << 20})
    benchmark->Arg(bytes);
}

BENCHMARK(add)->Apply(sizes);
BENCHMARK(scale)->Apply(sizes);
BENCHMARK(sgd)->Apply(sizes);
BENCHMARK(adagrad)->Apply(sizes);
BENCHMARK(truncate)->Apply(sizes);

}  // namespace
}  // namespace dlobd::compute

BENCHMARK_MAIN();
