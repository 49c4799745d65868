// Random numbers of our own, integer arithmetic only, so that a seed gives the same run under every
// compiler and standard library. Generator: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>

namespace dlobd::base {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  // A generator for one purpose: streams of different words are independent for all practical ends.
  // Example: Random::of({seed, epoch, rank}).
  static Random of(std::initializer_list<std::uint64_t> words) {
    std::uint64_t state = 0x9e3779b97f4a7c15ULL;
    for (const std::uint64_t word : words) state = mix(state ^ mix(word + 0x9e3779b97f4a7c15ULL));
    return Random(state);
  }

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    return mix(state_);
  }

  // Uniform in [0, bound); bound > 0. Multiply-shift with rejection (Lemire 2019): no bias.
  std::uint64_t below(std::uint64_t bound) {
    auto product = static_cast<unsigned __int128>(next()) * bound;
    auto low = static_cast<std::uint64_t>(product);
    if (low < bound) {
      const std::uint64_t threshold = (0 - bound) % bound;
      while (low < threshold) {
        product = static_cast<unsigned __int128>(next()) * bound;
        low = static_cast<std::uint64_t>(product);
      }
    }
    return static_cast<std::uint64_t>(product >> 64);
  }

  // Uniform in [0, 1), a multiple of 2^-24: exact in float.
  float unit() { return static_cast<float>(next() >> 40) * 0x1p-24F; }

  template <class T>
  void shuffle(std::span<T> items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

  [[nodiscard]] std::uint64_t state() const { return state_; }

 private:
  static std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  std::uint64_t state_;
};

}  // namespace dlobd::base
