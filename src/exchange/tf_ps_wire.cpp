#include "exchange/tf_ps_wire.h"

#include <cstring>
#include <utility>

#include "base/check.h"
#include "exchange/not_due.h"

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
  transport::Arrival plain = arrival;
  plain.index = number_of(arrival.index);
  return exchange::not_due(plain, what);
}

Placement::Placement(std::span<const compute::ParameterView> views, Layout layout,
                     std::size_t pack_below_bytes)
    : layout_(layout),
      variables_(static_cast<std::size_t>(layout.servers)),
      owned_(static_cast<std::size_t>(layout.servers)),
      batch_of_(views.size()),
      batches_of_(static_cast<std::size_t>(layout.servers)) {
  CHECK(layout.servers > 0, "a parameter server design without servers");
  for (std::size_t view = 0; view < views.size(); ++view) {
    variables_[static_cast<std::size_t>(owner(view) - layout.workers)].push_back(view);
  }
  std::vector<Batch> small(static_cast<std::size_t>(layout.servers));
  for (std::size_t view = 0; view < views.size(); ++view) {
    Batch batch;
    batch.owner = owner(view);
    if (views[view].size * sizeof(float) < pack_below_bytes) {
      small[static_cast<std::size_t>(batch.owner - layout.workers)].views.push_back(view);
      continue;
    }
    batch.views.push_back(view);
    add(std::move(batch), views);
  }
  for (int server = layout.workers; server < layout.world_size(); ++server) {
    Batch& packed = small[static_cast<std::size_t>(server - layout.workers)];
    packed.owner = server;
    if (!packed.views.empty()) add(std::move(packed), views);
    if (!variables(server).empty()) owners_.push_back(server);
  }
}

void Placement::add(Batch batch, std::span<const compute::ParameterView> views) {
  const auto server = static_cast<std::size_t>(batch.owner - layout_.workers);
  for (const std::size_t view : batch.views) {
    batch.elements += views[view].size;
    batch_of_[view] = batches_.size();
  }
  batch.scratch_offset = owned_[server];
  owned_[server] += batch.elements;
  if (batch.packed()) {
    batch.packed_offset = packed_elements_;
    packed_elements_ += batch.elements;
  }
  batches_of_[server].push_back(batches_.size());
  batches_.push_back(std::move(batch));
}

}  // namespace dlobd::exchange::tf_ps
