// What replicas have in common, however they compute: a model and the arena that holds it. No layer
// of any model draws random numbers yet, so there is no generator with a state.
#pragma once

#include <string>

#include "compute/arena.h"
#include "compute/model.h"
#include "compute/replica.h"

namespace dlobd::compute {

class ModelReplica : public Replica {
 public:
  ParameterArena& arena() final { return arena_; }
  void initialize(std::uint64_t seed) final { compute::initialize(arena_, model_, seed); }
  [[nodiscard]] std::string generator_state() const final { return {}; }
  base::Result<void> set_generator_state(const std::string& state) final;

 protected:
  explicit ModelReplica(const Model& model, Backing backing = Backing::memory)
      : model_(model), arena_(model.parameters, 0, backing) {}

  const Model model_;
  ParameterArena arena_;
};

}  // namespace dlobd::compute
