#include "exchange/bigdl_drop.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace dlobd::exchange {

std::uint64_t BigDlDrop::wanted(int workers) const {
  return static_cast<std::uint64_t>(share * static_cast<double>(every) * workers);
}

namespace bigdl {

DropRule::DropRule(BigDlDrop options, int workers) : options_(options), workers_(workers) {
  if (options_.share > 0) times_.resize(options_.every * static_cast<std::size_t>(workers));
}

std::optional<base::Duration> DropRule::limit() const {
  if (iteration_ < options_.warm_up + options_.every) return std::nullopt;
  return threshold_;
}

void DropRule::finish(int worker, base::Duration time) {
  ++finished_;
  if (times_.empty()) return;
  const auto row = static_cast<std::size_t>(iteration_ % options_.every);
  times_.at(row * static_cast<std::size_t>(workers_) + static_cast<std::size_t>(worker)) = time;
}

int DropRule::end_iteration() {
  const int finished = std::exchange(finished_, 0);
  dropped_ += static_cast<std::uint64_t>(workers_ - finished);
  if (finished < workers_ * (1.0 - options_.most)) return 0;
  ++iteration_;
  if (!times_.empty() && iteration_ > options_.warm_up && iteration_ % options_.every == 0) {
    take_threshold();
  }
  return finished;
}

void DropRule::take_threshold() {
  const std::uint64_t wanted = options_.wanted(workers_);
  if (wanted > dropped_) {
    const auto nth = times_.begin() + static_cast<std::ptrdiff_t>(wanted - dropped_ - 1);
    std::nth_element(times_.begin(), nth, times_.end(), std::greater<>());
    threshold_ = *nth;
  } else if (threshold_) {
    const auto longer = 1.01 * static_cast<double>(threshold_->count());
    threshold_ = base::Duration(static_cast<std::int64_t>(longer));
  }
  std::fill(times_.begin(), times_.end(), base::Duration::zero());
  dropped_ = 0;
}

}  // namespace bigdl
}  // namespace dlobd::exchange
