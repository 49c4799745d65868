// The flat memory of one replica: all learnable parameters in one buffer and their gradients in
// another, layers concatenated in forward order, plus a third for state that is no parameter
// (batch-norm running statistics; local to a rank). Named views say where each parameter lies.
// Both buffers can be registered with a transport: they never move. float32, page-aligned.
// Where the system has no such memory, the constructor throws a std::bad_alloc whose what() says
// so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dlobd::compute {

// A half-open range of elements of the arena.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
  [[nodiscard]] std::size_t size() const { return end - begin; }
  friend bool operator==(const Range&, const Range&) = default;
};

struct ParameterView {
  std::string name;                 // "conv1.weight"
  std::vector<std::int64_t> shape;  // row-major
  std::size_t offset = 0;           // elements from the start of the arena
  std::size_t size = 0;             // elements
  float lr_multiplier = 1;          // Caffe's lr_mult
  float decay_multiplier = 1;       // Caffe's decay_mult
  [[nodiscard]] Range range() const { return {offset, offset + size}; }
};

// What a model is made of, before any memory is taken.
struct ParameterSpec {
  std::string name;
  std::vector<std::int64_t> shape;
  float lr_multiplier = 1;
  float decay_multiplier = 1;
};

enum class Backing {
  memory,   // zero-filled, committed on first touch
  phantom,  // addresses without memory: for simulations that only count; never to be read or
            // written
};

class ParameterArena {
 public:
  explicit ParameterArena(const std::vector<ParameterSpec>& parameters, std::size_t state_size = 0,
                          Backing backing = Backing::memory);
  ParameterArena(ParameterArena&&) noexcept;
  ParameterArena& operator=(ParameterArena&&) noexcept;
  ~ParameterArena();

  [[nodiscard]] std::size_t size() const { return size_; }  // elements: P
  [[nodiscard]] const std::vector<ParameterView>& views() const { return views_; }
  [[nodiscard]] Backing backing() const { return backing_; }
  [[nodiscard]] std::span<float> parameters() const { return {parameters_, size_}; }
  [[nodiscard]] std::span<float> gradients() const { return {gradients_, size_}; }
  [[nodiscard]] std::span<float> state() const { return {state_, state_size_}; }

 private:
  std::size_t size_ = 0;
  std::size_t state_size_ = 0;
  std::size_t mapped_bytes_ = 0;
  Backing backing_ = Backing::memory;
  std::vector<ParameterView> views_;
  float* parameters_ = nullptr;
  float* gradients_ = nullptr;
  float* state_ = nullptr;
};

}  // namespace dlobd::compute
