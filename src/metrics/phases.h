// Where the time of a step goes. Phases are exclusive: entering one suspends the one around it, so
// the phases of a step and what is left over ("unattributed") add up to its wall time exactly.
// Communication that runs beside the step (overlapped) is kept apart: the time during which at
// least one transfer was open.
//
//   auto scope = phases.enter(Phase::exchange);   // until the scope ends
//
// Belongs to the thread of the step's coroutine (the loop's).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/loop.h"

namespace dlobd::metrics {

enum class Phase : std::uint8_t { feed, compute, exchange, wait, schedule, update };
inline constexpr std::size_t kPhases = 6;

class Phases {
 public:
  explicit Phases(const base::Loop& loop) : loop_(loop) {}

  class Scope {
   public:
    Scope(Phases& phases, Phase phase)
        : phases_(phases), outer_(phases.switch_to(static_cast<int>(phase))) {}
    ~Scope() { phases_.switch_to(outer_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Phases& phases_;
    int outer_;
  };

  [[nodiscard]] Scope enter(Phase phase) { return Scope(*this, phase); }

  // One open transfer of overlapped communication.
  class Transfer {
   public:
    explicit Transfer(Phases& phases) : phases_(phases) { phases_.transfer_opened(); }
    ~Transfer() { phases_.transfer_closed(); }
    Transfer(const Transfer&) = delete;
    Transfer& operator=(const Transfer&) = delete;

   private:
    Phases& phases_;
  };

  void begin_step();

  struct Totals {
    base::Time start{0};
    base::Duration wall{0};
    std::array<base::Duration, kPhases> phases{};
    base::Duration unattributed{0};
    base::Duration communication{0};
    [[nodiscard]] base::Duration of(Phase phase) const {
      return phases[static_cast<std::size_t>(phase)];
    }
  };
  [[nodiscard]] Totals end_step();

 private:
  friend class Scope;
  int switch_to(int phase);  // -1: none
  void transfer_opened();
  void transfer_closed();

  const base::Loop& loop_;
  int current_ = -1;
  base::Time since_{0};
  int open_transfers_ = 0;
  base::Time transfers_since_{0};
  Totals totals_;
};

}  // namespace dlobd::metrics
