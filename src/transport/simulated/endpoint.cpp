#include "transport/simulated/endpoint.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "transport/descriptor.h"

namespace dlobd::transport::simulated {

SimulatedEndpoint::SimulatedEndpoint(std::shared_ptr<Fabric> fabric, int rank, int world_size)
    : Endpoint(fabric->loop(), rank, world_size), fabric_(std::move(fabric)) {
  fabric_->attach(rank, this);
}

SimulatedEndpoint::~SimulatedEndpoint() {
  fabric_->attach(rank(), nullptr);
  fabric_->close(rank());
}

void SimulatedEndpoint::register_memory(RegionId id, std::span<std::byte> memory) {
  CHECK(regions_.emplace(id, memory).second, "region {} is registered twice", id);
}

base::Result<std::vector<std::byte>> SimulatedEndpoint::descriptor() {
  Descriptor own;
  own.address = "simulated";
  own.regions = sizes_of(regions_);
  return encode(own);
}

base::Task<base::Result<void>> SimulatedEndpoint::connect(
    const std::vector<std::vector<std::byte>>& descriptors) {
  CHECK(descriptors.size() == static_cast<std::size_t>(world_size()), "{} descriptors for {} ranks",
        descriptors.size(), world_size());
  for (const auto& blob : descriptors) {
    auto peer = decode_descriptor(blob);
    DLOBD_CO_CHECK(peer);
    peers_.push_back(std::move(peer->regions));
  }
  fabric_->connected(rank());
  while (!fabric_->all_connected() && !error()) co_await fabric_->changed(rank()).wait();
  if (error()) co_return base::fail(*error());
  co_return base::Result<void>();
}

std::shared_ptr<Flight> SimulatedEndpoint::flight_to(int peer, Notification notification,
                                                     std::span<const std::byte> bytes,
                                                     Traffic traffic) {
  CHECK(peer != rank() && peer >= 0 && peer < world_size(), "rank {} writes to rank {}", rank(),
        peer);
  CHECK(notification.kind < kMaxKinds, "kind {} of at most {}", notification.kind, kMaxKinds);
  CHECK(!peers_.empty(), "rank {} is not connected", rank());
  auto flight = std::make_shared<Flight>(loop());
  flight->source = rank();
  flight->destination = peer;
  flight->bytes = bytes;
  flight->notification = notification;
  flight->traffic = traffic;
  flight->ready = loop().now();
  return flight;
}

base::Task<base::Result<void>> SimulatedEndpoint::depart(std::shared_ptr<Flight> flight) {
  count_sent(flight->traffic, flight->bytes.size());
  fabric_->depart(flight);
  co_await flight->departed.wait();
  if (error()) co_return base::fail(*error());
  co_return base::Result<void>();
}

base::Task<base::Result<void>> SimulatedEndpoint::write(Write write) {
  if (error()) co_return base::fail(*error());
  auto flight = flight_to(write.peer, write.notification, write.bytes, write.traffic);
  auto fitting = check_write(peers_[static_cast<std::size_t>(write.peer)], write);
  DLOBD_CO_CHECK(fitting);
  flight->region = write.region;
  flight->offset_bytes = write.offset_bytes;
  auto left = co_await depart(std::move(flight));
  co_return left;
}

base::Task<base::Result<void>> SimulatedEndpoint::send(Message message) {
  if (error()) co_return base::fail(*error());
  CHECK(message.bytes.size() <= kMaxMessageBytes, "message of {} bytes", message.bytes.size());
  auto flight = flight_to(message.peer, message.notification, message.bytes, message.traffic);
  auto left = co_await depart(std::move(flight));
  co_return left;
}

base::Task<base::Result<void>> SimulatedEndpoint::shutdown() {
  while (!error() && fabric_->has_outgoing(rank())) co_await fabric_->changed(rank()).wait();
  if (error()) co_return base::fail(*error());
  fabric_->shut(rank());
  co_return base::Result<void>();
}

void SimulatedEndpoint::land_part(const Flight& flight, std::span<const std::byte> part) {
  if (!flight.region) return;
  const auto memory = regions_.find(*flight.region);
  CHECK(memory != regions_.end() && fits(memory->second.size(), flight.offset_bytes, part.size()),
        "rank {} changed its regions after connect()", rank());
  std::copy(part.begin(), part.end(),
            memory->second.begin() + static_cast<std::ptrdiff_t>(flight.offset_bytes));
}

void SimulatedEndpoint::land(const Flight& flight, std::span<const std::byte> bytes) {
  Arrival arrival;
  arrival.source = flight.source;
  arrival.index = flight.notification.index;
  arrival.bytes = flight.bytes.size();
  arrival.sender_ready = flight.ready;
  if (!flight.region) {
    arrival.payload.assign(bytes.begin(), bytes.end());
  } else if (fabric_->moves_payload()) {
    land_part(flight, bytes);
  }
  arrived(flight.notification.kind, std::move(arrival), flight.traffic);
}

void SimulatedEndpoint::killed() {
  fail(base::Error(base::ErrorKind::cancelled,
                   fmt::format("killed by a fault of the simulation: rank {}", rank()), rank()));
}

}  // namespace dlobd::transport::simulated
