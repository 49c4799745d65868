#include "exchange/gather_slices.h"

#include <utility>

namespace dlobd::exchange {

GatherSlices::GatherSlices(transport::Endpoint& endpoint, std::span<float> values,
                           transport::RegionId target, transport::Kind kind,
                           std::vector<compute::Range> slices, std::string what)
    : endpoint_(endpoint),
      values_(values),
      target_(target),
      kind_(kind),
      slices_(std::move(slices)),
      inbox_(endpoint, kind, std::move(what)) {}

base::Task<base::Result<void>> GatherSlices::gather() {
  const std::uint32_t number = gathered_++;
  if (endpoint_.rank() > 0) {
    const compute::Range own = slices_.at(static_cast<std::size_t>(endpoint_.rank()));
    const transport::Notification notification{kind_, number};
    transport::Write write(0, target_, own.begin * sizeof(float),
                           std::as_bytes(values_.subspan(own.begin, own.size())), notification,
                           transport::Traffic::apart);
    auto sent = co_await endpoint_.write(write);
    co_return sent;
  }
  for (std::size_t owner = 1; owner < slices_.size(); ++owner) {
    auto arrived = co_await inbox_.from(static_cast<int>(owner), number,
                                        slices_[owner].size() * sizeof(float));
    DLOBD_CO_CHECK(arrived);
  }
  co_return base::Result<void>();
}

}  // namespace dlobd::exchange
