// Runs one call of a replica to its end, and keeps what the sink heard.
#pragma once

#include <utility>
#include <vector>

#include "base/loop.h"
#include "base/random.h"
#include "compute/replica.h"

namespace dlobd::compute {

class Heard final : public GradientSink {
 public:
  explicit Heard(base::Loop& loop) : loop_(loop) {}
  void gradient_ready(std::size_t view) override {
    views.push_back(view);
    times.push_back(loop_.now());
  }
  std::vector<std::size_t> views;
  std::vector<base::Time> times;

 private:
  base::Loop& loop_;
};

template <class T>
base::Task<void> keep_result(base::Loop& loop, base::Task<base::Result<T>> task,
                             std::optional<base::Result<T>>& result) {
  auto got = co_await std::move(task);
  result.emplace(std::move(got));
  loop.stop();
}

template <class T>
base::Result<T> run_to_end(base::Loop& loop, base::Task<base::Result<T>> task) {
  std::optional<base::Result<T>> result;
  loop.spawn(keep_result<T>(loop, std::move(task), result));
  loop.run();
  return std::move(*result);
}

inline batches::Batch random_batch(const records::Shape& shape, std::size_t size,
                                   std::int64_t classes, std::uint64_t seed) {
  base::Random random(seed);
  batches::Batch batch;
  batch.shape = shape;
  batch.pixels.resize(size * shape.bytes());
  for (auto& pixel : batch.pixels) pixel = static_cast<std::uint8_t>(random.below(256));
  batch.labels.resize(size);
  for (auto& label : batch.labels) {
    label = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(classes)));
  }
  return batch;
}

}  // namespace dlobd::compute
