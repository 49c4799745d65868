// Why a write never hits memory in use: rank 0 reads the others' places between two gathers only,
// while it saves what they brought, and ranks meet after a snapshot.
#include "exchange/residuals.h"

#include "exchange/buffer.h"
#include "exchange/kinds.h"

namespace dlobd::exchange {

Residuals::Residuals(transport::Endpoint& endpoint, std::size_t elements, compute::Backing backing)
    : endpoint_(endpoint),
      elements_(elements),
      memory_(make_buffer(
          "residuals",
          elements * static_cast<std::size_t>(endpoint.rank() == 0 ? endpoint.world_size() : 1),
          backing)),
      inbox_(endpoint, kind::settled_residuals, "what a rank owes") {
  endpoint.register_memory(region::residuals, std::as_writable_bytes(memory_.parameters()));
}

base::Task<base::Result<void>> Residuals::gather() {
  const std::uint32_t number = gathered_++;
  const std::size_t bytes = elements_ * sizeof(float);
  if (endpoint_.rank() > 0) {
    const transport::Notification notification{kind::settled_residuals, number};
    transport::Write write(0, region::residuals, static_cast<std::size_t>(endpoint_.rank()) * bytes,
                           std::as_bytes(own()), notification, transport::Traffic::apart);
    auto sent = co_await endpoint_.write(write);
    co_return sent;
  }
  for (int rank = 1; rank < endpoint_.world_size(); ++rank) {
    auto arrived = co_await inbox_.from(rank, number, bytes);
    DLOBD_CO_CHECK(arrived);
  }
  co_return base::Result<void>();
}

}  // namespace dlobd::exchange
