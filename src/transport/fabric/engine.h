// The endpoint over libfabric: see transport/fabric/endpoint.h for what travels.
//
//   engine.cpp          opening, writes and sends
//   engine_connect.cpp  hellos
//   engine_end.cpp      broken links, failure, shutdown
//   engine_post.cpp     what goes out: packets, one-sided operations, credits
//   engine_receive.cpp  what the completion queue says: packets, marks, completions, errors
//   escape.h            a way out of calls that never end
//
// Messages to a peer are posted in the order of the calls, one operation a credit; where the
// provider is busy the peer is tried again at each poll. Incoming parts are joined by sequence, so
// nothing is asked of the provider's order.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "base/lookout.h"
#include "base/waiters.h"
#include "transport/fabric/adapter.h"
#include "transport/fabric/endpoint.h"
#include "transport/fabric/escape.h"
#include "transport/fabric/memory.h"
#include "transport/fabric/peer.h"
#include "transport/fabric/progress.h"
#include "transport/regions.h"

namespace dlobd::transport::fabric {

class Engine final : public FabricEndpoint {
 public:
  Engine(base::Loop& loop, int rank, int world_size, Options options,
         std::unique_ptr<Adapter> adapter);
  ~Engine() override;
  base::Result<void> open();

  void register_memory(RegionId id, std::span<std::byte> memory) override;
  base::Result<std::vector<std::byte>> descriptor() override;
  base::Task<base::Result<void>> connect(
      const std::vector<std::vector<std::byte>>& descriptors) override;
  base::Task<base::Result<void>> write(Write write) override;
  base::Task<base::Result<void>> send(Message message) override;
  base::Task<base::Result<void>> shutdown() override;

  [[nodiscard]] const Opened& opened() const override { return adapter_->opened(); }
  [[nodiscard]] Statistics statistics() const override;

 protected:
  void failed() override;
  void glance() override;

 private:
  enum class Posted { yes, again, broken };

  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }

  // Life and end.
  base::Result<void> open_buffers();
  Header header_of(PacketType type, int rank, Notification notification, Traffic traffic,
                   std::size_t bytes);
  // True: done, nothing to wait for.
  bool start(Peer& to, Outgoing& outgoing);
  base::Task<base::Result<void>> finish(Peer& to, Outgoing& outgoing);
  base::Task<base::Result<void>> verdict();
  void lost(Peer& to);
  void break_link(Peer& with, base::ErrorKind kind, const std::string& why);
  void abandon(Peer& with);
  void tell_gone();
  bool drain();
  [[nodiscard]] bool over_verbs() const { return opened().provider.starts_with("verbs"); }
  void close();
  [[nodiscard]] std::vector<int> without_bye() const;
  void watch(base::Time now);

  // Connecting.
  base::Result<void> meet(const std::vector<std::vector<std::byte>>& descriptors);
  // `key`: to be shown by the peer, or, in a refusal, that which it gave.
  void say_hello(Peer& to, PacketType type, Answer answer, std::uint64_t key);
  void on_hello(const Header& header, std::span<const std::byte> payload);
  [[nodiscard]] std::vector<int> missing() const;

  // Out.
  void enqueue(Peer& to, Outgoing& outgoing);
  void control(Peer& to, PacketType type, std::vector<std::byte> payload);
  // `now`: of the call that led here.
  void pump(Peer& to, base::Time now);
  void block(Peer& to);
  std::size_t retry_blocked();
  struct Fragment {
    std::span<const std::byte> bytes;
    std::size_t offset_bytes;
    bool marked;
  };
  [[nodiscard]] Fragment fragment_of(const Outgoing& outgoing, std::uint32_t number) const;
  // Into steps, and marks to expect.
  void divide(Outgoing& outgoing) const;
  [[nodiscard]] bool needs_credit(const Outgoing& outgoing) const;
  [[nodiscard]] bool must_wait(const Peer& to, const Outgoing& outgoing) const;
  Posted post_step(Peer& to, Outgoing& outgoing);
  Posted post_fragment(Peer& to, Outgoing& outgoing, std::uint32_t number);
  // completion: also where the provider would take it without one.
  Posted post_packet(Peer& to, Header header, std::span<const std::byte> payload, bool completion);
  Posted posted(Peer& to, ssize_t code);
  void complete(Outgoing& outgoing);
  void owe(Peer& to);

  // In.
  std::size_t poll();
  std::size_t read_events();
  void on_event(const fi_cq_data_entry& event);
  void on_error();
  // Somebody's link is broken already: an error of nobody's may be the same.
  [[nodiscard]] bool explained() const;
  // The peer that an error must be of which the provider says nothing; else -1.
  [[nodiscard]] int only_suspect() const;
  void fail_unless_explained(const std::string& why);
  // Calls the provider so that this thread gets out even if the call never ends.
  template <class Call>
  ssize_t call(const Call& provider) {
    if (stuck_) return -FI_EAGAIN;
    const ssize_t code = escape_.run(provider);
    return code == Escape::kNever ? got_stuck() : code;
  }
  ssize_t got_stuck();
  void on_receive(Operation& receive, std::size_t bytes);
  void on_packet(Peer& from, const Header& header, std::span<const std::byte> payload);
  void on_mark(const Mark& mark);
  void on_written(Operation& write);
  Partial* partial_of(Peer& from, std::uint32_t sequence, std::uint32_t distance);
  void settle(Peer& from);
  void deliver(Peer& from, Partial& partial);
  void post_receive(Operation& receive);
  Operation* operation_of(void* context);

  Options options_;
  std::unique_ptr<Adapter> adapter_;
  Memory memory_;
  std::shared_ptr<Progress> progress_;
  Escape escape_;
  base::Waiters changed_;               // hellos, goodbyes, failure
  std::optional<base::Error> refused_;  // a registration, until descriptor() tells
  std::map<RegionId, const Registration*> regions_;
  MarkWidth mark_width_ = MarkWidth::narrow;
  std::size_t inject_bytes_ = 0;
  std::size_t injected_write_bytes_ = 0;  // a write of so many is injected
  std::size_t fragment_bytes_ = 0;
  std::uint32_t most_writes_ = 0;  // posted to one peer and not completed
  // One mark a write, on its last few bytes, and no one-sided operation without completion. For
  // tcp;ofi_rxm, which keeps the order of all that goes to a peer, and which crashes (rxm of
  // libfabric 1.17) when a link ends within others.
  bool marks_tail_ = false;

  std::vector<std::byte> slab_;  // of all buffers
  std::vector<Operation> receives_;
  std::vector<Operation> packets_;
  std::vector<Operation> writes_;
  std::vector<Operation*> free_packets_;
  std::vector<Operation*> free_writes_;
  std::vector<Operation*> unposted_;  // receives that the provider did not take yet
  void* slab_local_ = nullptr;
  std::array<std::byte, kPacketBytes> scratch_{};  // of packets that the provider copies

  std::uint32_t grant_ = 0;  // credits for each peer
  std::vector<Peer> peers_;  // by rank, from connect() on
  std::vector<int> blocked_;
  base::Lookout lookout_;
  std::string hello_refused_;  // the last of a stranger or an answer, for errors
  bool leaving_ = false;
  bool polling_ = false;
  base::Time polled_{0};     // when the events in hand were read
  std::uint64_t woken_ = 0;  // who waited for what an event brought
  bool in_part_ = false;     // the last events brought only part of a message
  bool held_back_ = false;   // a write waits for an earlier one: must_wait()
  bool closed_ = false;
  bool stuck_ = false;  // a call of the provider never ended: it is not called any more
  Statistics statistics_;
  std::shared_ptr<bool> here_ = std::make_shared<bool>(true);  // for what is posted to the loop
};

}  // namespace dlobd::transport::fabric
