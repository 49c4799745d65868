// Ranks joined by TCP: over any interface (Ethernet, IP over InfiniBand, loopback), one or several
// connections between each two. The lower rank dials the higher one; each side proves the job's
// token.
//
// write() gathers header and payload from where they lie, and the peer reads a large payload
// straight into its region. What a frame asks for is checked on both sides. See connection.h for
// how bytes move and when a link breaks; see transport/endpoint.h for what a break leads to. A
// write to a peer whose link is broken waits for fail(), as every other waiter does: the verdict
// comes from above.
//
// Threads: belongs to the loop's thread; destroyed before the loop.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "transport/descriptor.h"
#include "transport/regions.h"
#include "transport/tcp/connection.h"
#include "transport/tcp/listener.h"
#include "transport/tcp/options.h"
#include "transport/tcp/partial.h"

namespace dlobd::transport::tcp {

class TcpEndpoint final : public Endpoint, private Connection::Owner {
 public:
  // Listens at once: io_error when the address cannot be had.
  static base::Result<std::unique_ptr<TcpEndpoint>> make(base::Loop& loop, int rank, int world_size,
                                                         Options options);
  TcpEndpoint(base::Loop& loop, int rank, int world_size, Options options,
              std::shared_ptr<Listener> listener);
  ~TcpEndpoint() override;

  void register_memory(RegionId id, std::span<std::byte> memory) override;
  base::Result<std::vector<std::byte>> descriptor() override;
  base::Task<base::Result<void>> connect(
      const std::vector<std::vector<std::byte>>& descriptors) override;
  base::Task<base::Result<void>> write(Write write) override;
  base::Task<base::Result<void>> send(Message message) override;
  // Waits for the peers' goodbyes, at most for the peer time-out: then the link to the first that
  // has not said it is broken.
  base::Task<base::Result<void>> shutdown() override;

  [[nodiscard]] const SystemCalls& system_calls() const { return calls_; }
  [[nodiscard]] std::uint16_t port() const { return listener_->port(); }

 protected:
  void failed() override;

 private:
  struct Peer {
    Descriptor descriptor;
    std::vector<std::shared_ptr<Connection>> connections;  // null until connected
    std::uint64_t next_sent = 0;
    std::uint64_t next_received = 0;
    std::map<std::uint64_t, Partial> partial;  // by sequence
    bool broken = false;
  };

  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  base::Task<base::Result<void>> dial(int rank, int number);
  base::Task<base::Result<void>> greet(Socket& socket, int rank, int number);
  Hello judge(const Hello& greeting);
  void adopt(int rank, int number, Socket socket);
  // The ranks that are not connected yet.
  [[nodiscard]] std::vector<int> missing() const;

  FrameHeader header_of(FrameType type, int rank, Notification notification, Traffic traffic,
                        std::size_t bytes);
  base::Task<base::Result<void>> transmit(int rank, const FrameHeader& header,
                                          std::span<const std::byte> bytes);
  base::Task<base::Result<void>> transmit_striped(int rank, const FrameHeader& header,
                                                  std::span<const std::byte> bytes);
  base::Task<base::Result<void>> verdict();
  void lost(int rank);
  base::Task<base::Result<void>> say_bye(std::shared_ptr<Connection> connection);
  // The ranks whose goodbye is still to come.
  [[nodiscard]] std::vector<int> without_bye() const;

  base::Result<std::span<std::byte>> place(Connection& from, const FrameHeader& header) override;
  base::Result<void> complete(Connection& from, const FrameHeader& header) override;
  void broke(Connection& connection, base::Error why, bool unsent) override;
  void deliver(int source, const FrameHeader& header, std::vector<std::byte> payload);
  void close_all();

  Options options_;
  std::shared_ptr<Listener> listener_;
  Regions regions_;
  RegionSizes region_sizes_;
  std::vector<Peer> peers_;  // by rank, from connect() on
  SystemCalls calls_;
  base::Waiters changed_;  // connections, goodbyes, failure
  bool leaving_ = false;
  std::vector<std::shared_ptr<Socket>> dialling_;  // also of their coroutines
};

}  // namespace dlobd::transport::tcp
