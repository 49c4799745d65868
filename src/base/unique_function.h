// A callable that is moved, never copied (std::move_only_function is not in C++20).
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace dlobd::base {

template <class Signature>
class UniqueFunction;

template <class R, class... Args>
class UniqueFunction<R(Args...)> {
 public:
  UniqueFunction() = default;

  template <class F, class = std::enable_if_t<!std::is_same_v<std::decay_t<F>, UniqueFunction>>>
  UniqueFunction(F&& function)  // NOLINT(google-explicit-constructor): as std::function
      : target_(std::make_unique<Target<std::decay_t<F>>>(std::forward<F>(function))) {}

  R operator()(Args... args) { return target_->call(std::forward<Args>(args)...); }
  explicit operator bool() const { return target_ != nullptr; }

 private:
  struct Callable {
    virtual ~Callable() = default;
    virtual R call(Args... args) = 0;
  };
  template <class F>
  struct Target final : Callable {
    explicit Target(F function) : function(std::move(function)) {}
    R call(Args... args) override { return function(std::forward<Args>(args)...); }
    F function;
  };
  std::unique_ptr<Callable> target_;
};

}  // namespace dlobd::base
