#include <algorithm>
#include <deque>
#include <set>
#include <utility>

#include "cluster/gathers.h"
#include "cluster/liveness.h"
#include "cluster/membership.h"
#include "cluster/messages.h"
#include "cluster/rendezvous.h"

namespace dlobd::cluster {

using base::ErrorKind;
using base::Task;

namespace {

using SharedLink =
    std::shared_ptr<Link>;  // of the list of links and of the coroutine that reads it

constexpr std::size_t kMaxStrangers =
    128;  // links at once that have not said hello, beyond the ranks

struct Seat {
  SharedLink link;  // null until the rank has joined
  std::string phase = "rendezvous";
  base::Time last_heard{0};
  bool left = false;      // has said bye
  bool aside = false;     // takes no part in all-gathers and stops
  bool gone = false;      // its link has ended
  bool answered = false;  // has said how far it is, after a request to stop
  std::uint64_t begun = 0;
};

class HubCore : public std::enable_shared_from_this<HubCore> {
 public:
  HubCore(base::Loop& loop, JobIdentity identity, Member::Options options)
      : loop_(loop),
        run_(identity.run),
        options_(options),
        beat_(loop, options.peer_timeout),
        seats_(static_cast<std::size_t>(std::max(identity.world_size, 0))),
        gathers_(world_size()),
        rendezvous_(std::move(identity)) {}

  void start() {
    beat_.start(weak_from_this(), [](HubCore& core, bool on_time) { core.tick(on_time); });
    join_timer_ = loop_.call_after(options_.join_timeout, [weak = weak_from_this()] {
      if (auto core = weak.lock()) core->join_deadline();
    });
  }

  void accept(std::unique_ptr<Link> link) {
    if (ended_) return;  // closes it
    // A rank says hello at once: who has kept silent for longest is most likely none.
    if (strangers_.size() >= kMaxStrangers + seats_.size()) {
      strangers_.front()->close();
      strangers_.pop_front();
    }
    SharedLink shared = std::move(link);
    strangers_.push_back(shared);
    loop_.spawn(serve(shared_from_this(), std::move(shared)));
  }

  void on_shipped(std::function<void(int, Blob)> handler) {
    shipped_handler_ = std::move(handler);
    auto early = std::exchange(shipped_early_, {});
    for (auto& [rank, blob] : early) shipped_handler_(rank, std::move(blob));
  }

  void before_dismissal(std::function<Task<void>()> task) { before_dismissal_ = std::move(task); }

  void shut() {
    if (ended_) return;
    ended_ = true;
    beat_.stop();
    loop_.cancel(join_timer_);
    loop_.cancel(drain_timer_);
    for (const SharedLink& link : strangers_) link->close();
    for (Seat& seat : seats_) {
      if (seat.link) seat.link->close();
    }
  }

 private:
  static Task<void> serve(std::shared_ptr<HubCore> self, SharedLink link) {
    const int rank = co_await greet(self, link);
    std::erase(self->strangers_, link);
    if (rank < 0) co_return;
    Seat& seat = self->seat(rank);
    while (!self->ended_ && !seat.gone) {
      auto frame = co_await link->receive();
      if (self->ended_ || seat.gone) break;
      if (!frame) {
        self->link_ended(rank, "its control link closed");
        break;
      }
      auto message = decode(*frame);
      if (!message) {
        self->link_ended(rank, "its control link carried " + message.error().message);
        break;
      }
      seat.last_heard = self->loop_.now();
      std::visit([&self, rank](auto& m) { self->handle(rank, m); }, *message);
    }
  }

  // The rank whose hello came over this link and was good, or -1.
  static Task<int> greet(std::shared_ptr<HubCore> self, SharedLink link) {
    const base::Duration patience =
        std::min(self->options_.peer_timeout, self->options_.join_timeout);
    const base::TimerId timer = self->loop_.call_after(patience, [link] { link->close(); });
    auto frame = co_await link->receive();
    if (!self->ended_) self->loop_.cancel(timer);
    if (!frame || self->ended_) co_return -1;
    auto message = decode(*frame);
    const Hello* hello = message ? std::get_if<Hello>(&*message) : nullptr;
    if (hello == nullptr) {
      link->close();  // no program of ours: it would not understand an answer
      co_return -1;
    }
    std::string reason = self->rendezvous_.objection(*hello);
    if (!reason.empty()) {
      Refuse refuse;
      refuse.reason = "refused: " + std::move(reason);
      link->send(encode(refuse));
      link->close();
      co_return -1;
    }
    link->lift_limit();
    self->admit(*hello, std::move(link));
    co_return hello->rank;
  }

  void admit(const Hello& hello, SharedLink link) {
    Seat& newcomer = seat(hello.rank);
    newcomer.link = std::move(link);
    newcomer.last_heard = loop_.now();
    rendezvous_.admit(hello);
    Run run;
    run.name = run_;
    send(newcomer, run);
    if (verdict_) return send(newcomer, verdict_message());
    if (!rendezvous_.complete()) return;
    loop_.cancel(join_timer_);
    broadcast(Welcome());
  }

  void join_deadline() {
    if (rendezvous_.complete() || verdict_) return;
    broadcast(rendezvous_.incomplete(options_.join_timeout));
    shut();
  }

  void handle(int, Heartbeat&) {}
  void handle(int rank, Phase& m) {
    seat(rank).phase = m.phase;
    // So that a lost rank 0 can be named with its phase.
    if (rank == 0) broadcast(m);
  }
  void handle(int rank, Gather& m) {
    if (seat(rank).left || !gathers_.in_order(rank, m)) {
      return link_ended(rank, "its all-gather came out of order");
    }
    if (auto lost = gathers_.add(rank, std::move(m))) {
      return judge(Verdict(Verdict::Cause::failed, rank, seat(rank).phase, std::move(*lost)));
    }
    finish_gathers();
    check_gathers();
  }
  void handle(int rank, Aside&) {
    seat(rank).aside = true;
    gathers_.stand_aside(rank);
    finish_gathers();
    agree_on_stop();
  }
  void handle(int rank, Suspect& m) {
    // A member that says so of us has waited for its time-out: it is we who did not run.
    if (m.peer == 0) return judge_lost(0, m.reason);
    if (m.peer < 0 || m.peer >= world_size() || m.peer == rank || seat(rank).left) return;
    if (!seat(m.peer).left) return judge_lost(m.peer, m.reason);
    // A rank that has left is not lost, unless somebody cannot finish without it.
    loop_.call_after(options_.peer_timeout, [weak = weak_from_this(), rank, m] {
      auto core = weak.lock();
      if (core && !core->ended_ && !core->seat(rank).left) core->judge_lost(m.peer, m.reason);
    });
  }
  void handle(int rank, Failure& m) {
    judge(Verdict(Verdict::Cause::failed, rank, seat(rank).phase, m.reason));
  }
  void handle(int, StopRequest&) {
    if (stopping_ || verdict_) return;
    stopping_ = true;
    broadcast(StopRequest());
    agree_on_stop();
  }
  void handle(int rank, StopReply& m) {
    seat(rank).begun = std::max(seat(rank).begun, m.begun);
    seat(rank).answered = true;
    agree_on_stop();
  }
  void handle(int rank, Ship& m) {
    if (shipped_handler_) {
      shipped_handler_(rank, std::move(m.blob));
    } else {
      shipped_early_.emplace_back(rank, std::move(m.blob));
    }
  }
  void handle(int rank, Bye& m) {
    seat(rank).left = true;
    seat(rank).begun = std::max(seat(rank).begun, m.begun);
    agree_on_stop();
    check_gathers();
    dismiss();
  }
  template <class T>
  void handle(int rank, T&) {
    link_ended(rank, "its control link carried a message that no member sends");
  }

  void finish_gathers() {
    for (const Gathered& gathered : gathers_.take_complete()) broadcast(gathered);
  }

  // An all-gather that lacks a rank which has left would never end.
  void check_gathers() {
    for (int rank = 0; rank < world_size(); ++rank) {
      if (!seat(rank).left || !gathers_.lacks(rank)) continue;
      return judge(Verdict(Verdict::Cause::failed, rank, seat(rank).phase,
                           "it left while the others gather"));
    }
  }

  void agree_on_stop() {
    if (!stopping_ || stop_sent_ || verdict_) return;
    StopAt stop;
    for (const Seat& seat : seats_) {
      if (!seat.answered && !seat.left && !seat.aside) return;
      stop.step = std::max(stop.step, seat.begun);  // the step after the last begun
    }
    stop_sent_ = true;
    broadcast(stop);
  }

  void link_ended(int rank, std::string reason) {
    Seat& ended = seat(rank);
    ended.gone = true;
    ended.link->close();
    if (!ended.left) judge_lost(rank, std::move(reason));
    dismiss();
  }

  void judge_lost(int rank, std::string reason) {
    judge(Verdict(Verdict::Cause::peer_lost, rank, seat(rank).phase, std::move(reason)));
  }

  // The first verdict wins.
  void judge(Verdict verdict) {
    if (verdict_ || ended_) return;
    verdict_.emplace(std::move(verdict));
    loop_.cancel(join_timer_);
    broadcast(verdict_message());
    // What the survivors still ship is waited for, but not longer than a silent one would be.
    drain_timer_ = loop_.call_after(options_.peer_timeout, [weak = weak_from_this()] {
      auto core = weak.lock();
      if (!core || core->ended_) return;
      core->drained_ = true;
      core->dismiss();
    });
    dismiss();
  }

  [[nodiscard]] VerdictMessage verdict_message() const {
    VerdictMessage message;
    message.failed = verdict_->cause == Verdict::Cause::failed;
    message.culprit = verdict_->culprit;
    message.phase = verdict_->phase;
    message.reason = verdict_->reason;
    return message;
  }

  // Answers byes: in a good end all at once; after a verdict each at once, but rank 0's, with whom
  // this hub ends, last.
  void dismiss() {
    if (ended_) return;
    bool all_done = true;
    for (int rank = 0; rank < world_size(); ++rank) {
      const Seat& other = seat(rank);
      const bool lost =
          verdict_ && verdict_->cause == Verdict::Cause::peer_lost && verdict_->culprit == rank;
      const bool done = other.left || other.gone || (verdict_ && (lost || !other.link));
      if (rank == 0 && verdict_) continue;
      all_done = all_done && done;
    }
    all_done = all_done || drained_;
    if (all_done && !verdict_ && before_dismissal_) {
      loop_.spawn(dismiss_after(shared_from_this(), std::exchange(before_dismissal_, {})));
      held_ = true;
    }
    if (held_) return;
    for (int rank = 0; rank < world_size(); ++rank) {
      Seat& other = seat(rank);
      if (!other.left || other.gone || dismissed_.contains(rank)) continue;
      if (all_done || (verdict_ && rank != 0)) {
        dismissed_.insert(rank);
        send(other, ByeAll());
      }
    }
    if (all_done && (seat(0).gone || drained_ || dismissed_.contains(0))) {
      beat_.stop();
      loop_.cancel(drain_timer_);
    }
  }

  static Task<void> dismiss_after(std::shared_ptr<HubCore> self, std::function<Task<void>()> task) {
    co_await task();
    self->held_ = false;
    self->dismiss();
  }

  void tick(bool on_time) {
    for (int rank = 0; rank < world_size(); ++rank) {
      Seat& other = seat(rank);
      if (!other.link || other.gone || dismissed_.contains(rank)) continue;
      send(other, Heartbeat());
      if (on_time && !verdict_ && !other.left && beat_.silent(other.last_heard)) {
        judge_lost(rank, beat_.no_heartbeat());
      }
    }
  }

  [[nodiscard]] int world_size() const { return static_cast<int>(seats_.size()); }
  Seat& seat(int rank) { return seats_[static_cast<std::size_t>(rank)]; }
  static void send(Seat& seat, const Message& message) { seat.link->send(encode(message)); }
  void broadcast(const Message& message) {
    const auto frame = encode(message);
    for (Seat& seat : seats_) {
      if (seat.link && !seat.gone) seat.link->send(frame);
    }
  }

  base::Loop& loop_;
  std::string run_;  // what this hub calls it
  Member::Options options_;
  Beat beat_;
  base::TimerId join_timer_;
  base::TimerId drain_timer_;         // runs from a verdict on
  std::deque<SharedLink> strangers_;  // have not said hello; the oldest first

  std::vector<Seat> seats_;  // by rank
  Gathers gathers_;
  Rendezvous rendezvous_;
  std::function<void(int, Blob)> shipped_handler_;
  std::vector<std::pair<int, Blob>> shipped_early_;
  bool stopping_ = false;
  bool stop_sent_ = false;
  std::optional<Verdict> verdict_;
  std::function<Task<void>()> before_dismissal_;
  bool held_ = false;  // while that runs, nobody is dismissed
  std::set<int> dismissed_;
  bool drained_ = false;
  bool ended_ = false;
};

class CoreHub final : public Hub {
 public:
  explicit CoreHub(std::shared_ptr<HubCore> core) : core_(std::move(core)) {}
  ~CoreHub() override { core_->shut(); }
  void accept(std::unique_ptr<Link> link) override { core_->accept(std::move(link)); }
  void on_shipped(std::function<void(int, Blob)> handler) override {
    core_->on_shipped(std::move(handler));
  }
  void before_dismissal(std::function<Task<void>()> task) override {
    core_->before_dismissal(std::move(task));
  }

 private:
  std::shared_ptr<HubCore> core_;  // shared with the coroutines that read its links
};

}  // namespace

std::unique_ptr<Hub> Hub::make(base::Loop& loop, JobIdentity identity, Member::Options options) {
  auto core = std::make_shared<HubCore>(loop, std::move(identity), options);
  core->start();
  return std::make_unique<CoreHub>(std::move(core));
}

}  // namespace dlobd::cluster
