// Packets of somebody who has read a descriptor and knows nothing else of the job.
#include "contract.h"
#include "fabric_group.h"
#include "transport/fabric/adapter.h"
#include "transport/fabric/wire.h"

namespace dlobd::transport {
namespace {

using namespace std::chrono_literals;

class FabricStrangers : public testing::TestWithParam<std::string> {};

Bytes packet_of(const fabric::Hello& hello, std::uint16_t source) {
  const Bytes payload = fabric::encode(hello);
  fabric::Header header;
  header.type = fabric::PacketType::answer;
  header.source = source;
  header.bytes = payload.size();
  Bytes packet(fabric::kHeaderBytes);
  fabric::encode(header, std::span<std::byte, fabric::kHeaderBytes>(packet));
  packet.insert(packet.end(), payload.begin(), payload.end());
  return packet;
}

// Who sends by hand. Belongs to the thread of its loop.
class Stranger {
 public:
  Stranger(const std::string& provider, const Bytes& descriptor) {
    auto opened = fabric::Adapter::open(on(provider));
    auto described = fabric::parse_description(descriptor);
    if (!opened || !described) return;
    adapter_ = std::move(*opened);
    if (!adapter_->enable(16)) return;
    if (const auto inserted = adapter_->insert(described->address)) victim_ = *inserted;
  }

  // Tries again while the provider is busy, and drives it until `done`.
  base::Task<void> send(base::Loop& loop, const Bytes& packet, const std::function<bool()>& done) {
    CO_ASSERT_TRUE(victim_ != FI_ADDR_UNSPEC);
    bool sent = false;
    for (int i = 0; i < 5000 && !done(); ++i) {
      if (!sent) {
        sent = fi_send(adapter_->endpoint(), packet.data(), packet.size(), nullptr, victim_,
                       &context_) == 0;
      }
      fi_cq_data_entry event{};
      (void)fi_cq_read(adapter_->queue(), &event, 1);
      co_await loop.sleep_for(1ms);
    }
    EXPECT_TRUE(sent && done());
  }

 private:
  std::unique_ptr<fabric::Adapter> adapter_;
  fi_addr_t victim_ = FI_ADDR_UNSPEC;
  fi_context2 context_{};
};

TEST_P(FabricStrangers, ARefusalThatDoesNotEchoTheGreetingIsNotBelieved) {
  auto group = fabric_group(2, FabricLoops::one, on(GetParam()));
  const auto descriptors = group->describe(0);
  Stranger stranger(GetParam(), descriptors[0]);
  fabric::Hello refusal;
  refusal.answer = fabric::Answer::wrong_token;
  refusal.world_size = 2;
  refusal.key = 12345;
  const Bytes packet = packet_of(refusal, 1);
  std::optional<base::Result<void>> connected;
  group->run([&](Endpoint& endpoint) -> base::Task<void> {
    if (endpoint.rank() == 0) {
      auto result = co_await endpoint.connect(descriptors);
      connected.emplace(std::move(result));
      co_return;
    }
    auto& victim = fabric_of(group->endpoint(0));
    co_await endpoint.loop().yield();
    co_await stranger.send(endpoint.loop(), packet, [&] {
      return connected.has_value() || victim.statistics().strangers > 0;
    });
    auto result = co_await endpoint.connect(descriptors);
    CO_ASSERT_OK(result);
  });
  ASSERT_TRUE(connected && *connected) << (connected ? connected->error().message : "hangs");
  EXPECT_EQ(fabric_of(group->endpoint(0)).statistics().strangers, 1U);
}

INSTANTIATE_TEST_SUITE_P(Providers, FabricStrangers, testing::Values("shm", "tcp;ofi_rxm"),
                         [](const auto& tested) {
                           return tested.param == "shm" ? "shm" : "tcp_ofi_rxm";
                         });

}  // namespace
}  // namespace dlobd::transport
