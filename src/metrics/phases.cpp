#include "metrics/phases.h"

#include <utility>

namespace dlobd::metrics {

int Phases::switch_to(int phase) {
  const base::Time now = loop_.now();
  if (current_ >= 0) totals_.phases[static_cast<std::size_t>(current_)] += now - since_;
  since_ = now;
  return std::exchange(current_, phase);
}

void Phases::transfer_opened() {
  if (open_transfers_++ == 0) transfers_since_ = loop_.now();
}

void Phases::transfer_closed() {
  if (--open_transfers_ == 0) totals_.communication += loop_.now() - transfers_since_;
}

void Phases::begin_step() {
  totals_ = Totals();
  totals_.start = loop_.now();
  since_ = totals_.start;
  transfers_since_ = totals_.start;
}

Phases::Totals Phases::end_step() {
  switch_to(current_);
  if (open_transfers_ > 0) {
    totals_.communication += loop_.now() - transfers_since_;
    transfers_since_ = loop_.now();
  }
  totals_.wall = loop_.now() - totals_.start;
  base::Duration attributed{0};
  for (const base::Duration phase : totals_.phases) attributed += phase;
  totals_.unattributed = totals_.wall - attributed;
  return totals_;
}

}  // namespace dlobd::metrics
