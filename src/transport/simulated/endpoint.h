// One rank's endpoint on the simulated network. See network.h.
#pragma once

#include <memory>
#include <vector>

#include "transport/regions.h"
#include "transport/simulated/fabric.h"

namespace dlobd::transport::simulated {

class SimulatedEndpoint final : public Endpoint, public Port {
 public:
  SimulatedEndpoint(std::shared_ptr<Fabric> fabric, int rank, int world_size);
  ~SimulatedEndpoint() override;

  void register_memory(RegionId id, std::span<std::byte> memory) override;
  base::Result<std::vector<std::byte>> descriptor() override;
  base::Task<base::Result<void>> connect(
      const std::vector<std::vector<std::byte>>& descriptors) override;
  base::Task<base::Result<void>> write(Write write) override;
  base::Task<base::Result<void>> send(Message message) override;
  base::Task<base::Result<void>> shutdown() override;

  void land(const Flight& flight, std::span<const std::byte> bytes) override;
  void land_part(const Flight& flight, std::span<const std::byte> part) override;
  void broke(int peer, base::Error why) override { link_broke(peer, std::move(why)); }
  void killed() override;

 protected:
  void failed() override { fabric_->close(rank()); }

 private:
  std::shared_ptr<Flight> flight_to(int peer, Notification notification,
                                    std::span<const std::byte> bytes, Traffic traffic);
  base::Task<base::Result<void>> depart(std::shared_ptr<Flight> flight);

  std::shared_ptr<Fabric> fabric_;
  Regions regions_;
  std::vector<RegionSizes> peers_;  // by rank, after connect()
};

}  // namespace dlobd::transport::simulated
