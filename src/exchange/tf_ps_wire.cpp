#include "exchange/tf_ps_wire.h"

#include <fmt/format.h>

#include <cstring>

#include "base/check.h"

namespace dlobd::exchange::tf_ps {

base::Task<base::Result<void>> say(transport::Endpoint& endpoint, int peer,
                                   transport::Notification notification,
                                   std::vector<std::uint64_t> values, transport::Traffic traffic) {
  const auto bytes = std::as_bytes(std::span<const std::uint64_t>(values));
  transport::Message message(peer, notification, bytes, traffic);
  auto sent = co_await endpoint.send(message);
  co_return sent;
}

base::Result<std::vector<std::uint64_t>> values_of(const transport::Arrival& arrival,
                                                   std::size_t count) {
  std::vector<std::uint64_t> values(count);
  if (arrival.payload.size() != count * sizeof(std::uint64_t) ||
      arrival.bytes != arrival.payload.size()) {
    return not_due(arrival, "a small message of another size");
  }
  std::memcpy(values.data(), arrival.payload.data(), arrival.payload.size());
  return values;
}

base::Failure not_due(const transport::Arrival& arrival, std::string_view what) {
  return base::fail(
      base::ErrorKind::corrupt_data,
      fmt::format("a peer's message is not one that is due: {} from rank {}, number {}, {} bytes",
                  what, arrival.source, arrival.index & kNumberMask, arrival.bytes),
      arrival.source);
}

Placement::Placement(std::span<const compute::ParameterView> views, Layout layout)
    : layout_(layout),
      variables_(static_cast<std::size_t>(layout.servers)),
      owned_(static_cast<std::size_t>(layout.servers)),
      offsets_(views.size()) {
  CHECK(layout.servers > 0, "a parameter server design without servers");
  for (std::size_t view = 0; view < views.size(); ++view) {
    const auto server = static_cast<std::size_t>(owner(view) - layout.workers);
    variables_[server].push_back(view);
    offsets_[view] = owned_[server];
    owned_[server] += views[view].size;
  }
  for (int server = layout.workers; server < layout.world_size(); ++server) {
    if (!variables(server).empty()) owners_.push_back(server);
  }
}

}  // namespace dlobd::exchange::tf_ps
