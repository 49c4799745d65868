#include "cluster/in_process_link.h"

#include <algorithm>
#include <array>
#include <deque>
#include <utility>

namespace dlobd::cluster {

// What both ends share: an inbox for each, and the state of the wire between them.
struct InProcessFaults::Wire : std::enable_shared_from_this<InProcessFaults::Wire> {
  struct Side {
    explicit Side(base::Loop& loop) : inbox(loop) {}
    base::Queue<Frame> inbox;
    // Under way towards it, in order: each event takes the first, whatever it was made for.
    std::deque<base::UniqueFunction<void(Side&)>> under_way;
    bool closed = false;         // by its owner, or by a fault: sends no more
    bool ended = false;          // its inbox has got its end
    base::Time last_arrival{0};  // of what is under way towards it
  };

  Wire(base::Loop& loop, InProcessOptions options)
      : loop(loop), options(std::move(options)), sides{Side(loop), Side(loop)} {}

  [[nodiscard]] bool vanishes() const { return silent || (options.silent && options.silent()); }

  // Runs `arrive` on side `to` after the latency, in order.
  void carry(std::size_t to, base::UniqueFunction<void(Side&)> arrive) {
    const base::Duration latency = options.latency
                                       ? std::max(options.latency(), base::Duration::zero())
                                       : base::Duration::zero();
    Side& side = sides[to];
    side.last_arrival = std::max(side.last_arrival, loop.now() + latency);
    side.under_way.push_back(std::move(arrive));
    auto deliver = [self = shared_from_this(), to] {
      Side& target = self->sides[to];
      auto first = std::move(target.under_way.front());
      target.under_way.pop_front();
      if (!target.ended && !self->vanishes()) first(target);
    };
    if (side.last_arrival <= loop.now()) {
      loop.post(std::move(deliver));
    } else {
      loop.call_at(side.last_arrival, std::move(deliver));
    }
  }

  static void end(Side& side, const char* why) {
    side.ended = true;
    side.inbox.fail(base::Error(base::ErrorKind::io_error, why));
  }

  base::Loop& loop;
  InProcessOptions options;
  std::array<Side, 2> sides;
  bool silent = false;
};

namespace {

using Wire = InProcessFaults::Wire;

class InProcessLink final : public Link {
 public:
  InProcessLink(std::shared_ptr<Wire> wire, std::size_t side)
      : wire_(std::move(wire)), side_(side) {}
  ~InProcessLink() override { close(); }

  void send(Frame frame) override {
    if (wire_->sides[side_].closed) return;
    wire_->carry(1 - side_, [frame = std::move(frame)](Wire::Side& side) mutable {
      side.inbox.push(std::move(frame));
    });
  }

  base::Task<base::Result<Frame>> receive() override {
    auto wire = wire_;  // the link may go while this waits
    auto frame = co_await wire->sides[side_].inbox.pop();
    co_return frame;
  }

  void close() override {
    Wire::Side& mine = wire_->sides[side_];
    if (mine.closed) return;
    mine.closed = true;
    Wire::end(mine, "the link was closed on this side");
    wire_->carry(1 - side_,
                 [](Wire::Side& side) { Wire::end(side, "the other side closed the link"); });
  }

  [[nodiscard]] std::string peer() const override { return "in process"; }

 private:
  std::shared_ptr<Wire> wire_;  // shared with the other end, frames under way, and the switches
  std::size_t side_;
};

}  // namespace

InProcessFaults::InProcessFaults(std::shared_ptr<Wire> wire) : wire_(std::move(wire)) {}

void InProcessFaults::close_after(base::Duration delay) {
  wire_->silent = true;
  wire_->loop.call_after(delay, [wire = wire_] {
    for (Wire::Side& side : wire->sides) {
      side.closed = true;
      Wire::end(side, "the link broke");
    }
  });
}

void InProcessFaults::silence() {
  wire_->silent = true;
}

InProcessPair in_process_pair(base::Loop& loop, InProcessOptions options) {
  auto wire = std::make_shared<Wire>(loop, std::move(options));
  return InProcessPair{std::make_unique<InProcessLink>(wire, 0),
                       std::make_unique<InProcessLink>(wire, 1), InProcessFaults(wire)};
}

}  // namespace dlobd::cluster
