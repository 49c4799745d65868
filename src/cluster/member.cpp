#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <map>
#include <utility>

#include "base/check.h"
#include "cluster/liveness.h"
#include "cluster/membership.h"
#include "cluster/messages.h"

namespace dlobd::cluster {

using base::ErrorKind;
using base::Result;
using base::Task;

namespace {

// With the other fields of its frame within the 64 bytes that all_gather() keeps free.
constexpr std::size_t kMaxWhatBytes = 32;

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : "unknown";
}

// What the Member and its reading coroutine share.
class MemberCore : public std::enable_shared_from_this<MemberCore> {
 public:
  MemberCore(base::Loop& loop, std::unique_ptr<Link> link, int rank, int world_size,
             Member::Options options, std::shared_ptr<HubNews> news)
      : loop_(loop),
        link_(std::move(link)),
        rank_(rank),
        world_size_(world_size),
        news_(std::move(news)),
        options_(options),
        beat_(loop, options.peer_timeout),
        started_(loop.now()),
        changed_(loop) {}

  void start(Hello hello) {
    send(std::move(hello));
    loop_.spawn(read(shared_from_this()));
    beat_.start(weak_from_this(), [](MemberCore& core, bool on_time) { core.tick(on_time); });
  }

  // Quiet from now on. Nobody may wait on this any more.
  void shut() {
    if (shut_) return;
    shut_ = true;
    beat_.stop();
    link_->close();
    changed_.wake_all();
  }

  static Task<Result<void>> wait_for_welcome(std::shared_ptr<MemberCore> self) {
    while (!self->welcomed_ && !self->ending()) co_await self->changed_.wait();
    if (self->ending()) co_return base::fail(self->ending_error());
    co_return Result<void>();
  }

  static Task<Result<std::vector<Blob>>> all_gather(std::shared_ptr<MemberCore> self, Blob blob,
                                                    std::string what) {
    CHECK(what.size() <= kMaxWhatBytes, "a long name for an all-gather: {}", what);
    // So that all blobs together fit into one frame, whatever the others send.
    const std::size_t limit = kMaxFrameBytes / static_cast<std::size_t>(self->world_size_) - 64;
    if (blob.size() > limit) {
      co_return base::fail(ErrorKind::invalid_argument,
                           fmt::format("a blob too large to gather from {} ranks: {} of at most {} "
                                       "bytes",
                                       self->world_size_, blob.size(), limit));
    }
    const std::uint64_t sequence = self->gathers_++;
    Gather gather;
    gather.sequence = sequence;
    gather.what = std::move(what);
    gather.blob = std::move(blob);
    ++self->counters_.gathers_sent;
    self->counters_.gather_bytes_sent += gather.blob.size();
    self->send(std::move(gather));
    while (!self->gathered_.contains(sequence) && !self->ending()) {
      co_await self->changed_.wait();
    }
    auto node = self->gathered_.extract(sequence);
    if (node.empty()) co_return base::fail(self->ending_error());
    co_return std::move(node.mapped());
  }

  static Task<Result<bool>> may_begin(std::shared_ptr<MemberCore> self, std::uint64_t step) {
    while (true) {
      if (self->ending()) co_return base::fail(self->ending_error());
      const bool within = !self->stop_at_ || step <= *self->stop_at_;
      // Before a question all steps; after our answer the next one; then what was agreed.
      if (self->stop_at_ || !self->answered_ || step <= *self->answered_) {
        if (within && step + 1 > self->begun_) self->begun_ = step + 1;
        co_return within;
      }
      co_await self->changed_.wait();
    }
  }

  static Task<Result<void>> leave(std::shared_ptr<MemberCore> self) {
    Bye bye;
    bye.begun = self->begun_;
    self->send(std::move(bye));
    // With a verdict there is no more than a time-out to wait for the hub's answer, which says that
    // all we shipped has come.
    const base::Time until = self->loop_.now() + self->options_.peer_timeout;
    const base::TimerId timer = self->loop_.call_at(until, [weak = self->weak_from_this()] {
      if (auto core = weak.lock()) core->changed_.wake_all();
    });
    while (!self->bye_all_ && !self->link_gone_ && !self->shut_) {
      if (self->verdict_ && self->loop_.now() >= until) {
        if (self->news_) self->news_->hub_lost = true;
        break;
      }
      co_await self->changed_.wait();
    }
    self->loop_.cancel(timer);
    self->shut();
    if (!self->bye_all_ || self->verdict_) co_return base::fail(self->ending_error());
    co_return Result<void>();
  }

  void send(Message message) { link_->send(encode(message)); }

  void set_phase(std::string phase) {
    if (phase == phase_) return;
    phase_ = phase;
    Phase message;
    message.phase = std::move(phase);
    send(std::move(message));
  }

  void on_verdict(std::function<void(const Verdict&)> handler) {
    if (verdict_) {
      handler(*verdict_);
    } else {
      handlers_.push_back(std::move(handler));
    }
  }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int world_size() const { return world_size_; }
  [[nodiscard]] bool judged() const { return verdict_.has_value(); }
  [[nodiscard]] const LinkCounters& counters() const { return counters_; }

 private:
  static Task<void> read(std::shared_ptr<MemberCore> self) {
    while (!self->shut_) {
      auto frame = co_await self->link_->receive();
      if (self->shut_) break;
      if (!frame) {
        self->link_ended();
        break;
      }
      auto message = decode(*frame);
      self->last_heard_ = self->loop_.now();
      if (!message) {
        self->hub_lost("its control link carried " + message.error().message);
        break;
      }
      std::visit([&self](auto& m) { self->handle(m); }, *message);
    }
  }

  void handle(Welcome&) { welcomed_ = true, changed_.wake_all(); }
  void handle(Heartbeat&) {}
  void handle(Run& m) {
    if (news_) news_->run = std::move(m.name);
  }
  void handle(Phase& m) { hub_phase_ = std::move(m.phase); }
  void handle(Refuse& m) {
    if (!refusal_) {
      refusal_.emplace(m.kind, std::move(m.reason),
                       m.rank < 0 ? std::nullopt : std::optional<int>(m.rank));
    }
    beat_.stop();
    changed_.wake_all();
  }
  void handle(Gathered& m) {
    if (m.blobs.size() != static_cast<std::size_t>(world_size_)) {
      hub_lost("its all-gather is not of this world size");
      return;
    }
    if (m.sequence >= gathers_) return;  // of the others, beside whom this rank stands
    gathered_.emplace(m.sequence, std::move(m.blobs));
    changed_.wake_all();
  }
  void handle(VerdictMessage& m) {
    decide(Verdict(m.failed ? Verdict::Cause::failed : Verdict::Cause::peer_lost, m.culprit,
                   std::move(m.phase), std::move(m.reason)));
  }
  void handle(StopRequest&) {
    if (!answered_) answered_ = begun_;
    StopReply reply;
    reply.begun = begun_;
    send(std::move(reply));
  }
  void handle(StopAt& m) { stop_at_ = m.step, changed_.wake_all(); }
  void handle(ByeAll&) {
    bye_all_ = true;
    changed_.wake_all();
  }
  template <class T>
  void handle(T&) {
    hub_lost("its control link carried a message that no hub sends");
  }

  void tick(bool on_time) {
    if (link_gone_) return;
    send(Heartbeat());
    ++counters_.heartbeats_sent;
    if (!on_time) return;
    // The first word may take as long as rank 0 takes to start.
    if (last_heard_ ? beat_.silent(*last_heard_)
                    : loop_.now() - started_ >= options_.join_timeout + options_.peer_timeout) {
      hub_lost(last_heard_
                   ? beat_.no_heartbeat()
                   : fmt::format("no answer to the first message for {:.1f} s",
                                 std::chrono::duration<double>(loop_.now() - started_).count()));
    }
  }

  void link_ended() {
    link_gone_ = true;
    changed_.wake_all();
    if (!bye_all_ && !refusal_) hub_lost("its control link closed");
  }

  // Rank 0 is told, for the case that it wakes up again, then not listened to any more.
  void hub_lost(std::string reason) {
    if (!bye_all_ && !refusal_) {
      if (news_) news_->hub_lost = true;
      Suspect message;
      message.peer = 0;
      message.reason = reason;
      send(std::move(message));
      decide(Verdict(Verdict::Cause::peer_lost, 0, hub_phase_, std::move(reason)));
    }
    link_gone_ = true;
    beat_.stop();
    link_->close();
    changed_.wake_all();
  }

  void decide(Verdict verdict) {
    if (verdict_) return;
    verdict_.emplace(std::move(verdict));
    changed_.wake_all();
    const auto keep = shared_from_this();  // a handler may drop the Member
    auto handlers = std::exchange(handlers_, {});
    for (auto& handler : handlers) handler(*verdict_);
  }

  [[nodiscard]] bool ending() const { return verdict_ || refusal_ || shut_; }
  [[nodiscard]] base::Error ending_error() const {
    if (verdict_) return verdict_->error();
    if (refusal_) return *refusal_;
    return {ErrorKind::cancelled, "this rank has left the job"};
  }

  base::Loop& loop_;
  std::unique_ptr<Link> link_;
  int rank_;
  int world_size_;
  std::shared_ptr<HubNews> news_;  // also of those who sent this rank; may be null
  Member::Options options_;
  Beat beat_;
  base::Time started_;
  base::Waiters changed_;  // whoever waits for anything here looks again at each change

  std::optional<base::Time> last_heard_;
  std::string phase_;
  std::string hub_phase_ = "rendezvous";
  bool welcomed_ = false;
  bool bye_all_ = false;
  bool link_gone_ = false;
  bool shut_ = false;
  std::optional<base::Error> refusal_;
  std::optional<Verdict> verdict_;
  std::vector<std::function<void(const Verdict&)>> handlers_;

  LinkCounters counters_;
  std::uint64_t gathers_ = 0;
  std::map<std::uint64_t, std::vector<Blob>> gathered_;

  std::uint64_t begun_ = 0;                // one more than the last step begun
  std::optional<std::uint64_t> answered_;  // begun_ when the hub asked
  std::optional<std::uint64_t> stop_at_;
};

class LinkedMember final : public Member {
 public:
  explicit LinkedMember(std::shared_ptr<MemberCore> core) : core_(std::move(core)) {}
  ~LinkedMember() override { core_->shut(); }

  [[nodiscard]] int rank() const override { return core_->rank(); }
  Task<Result<std::vector<Blob>>> all_gather(Blob blob, std::string_view what) override {
    return MemberCore::all_gather(core_, std::move(blob), std::string(what));
  }
  void set_phase(std::string phase) override { core_->set_phase(std::move(phase)); }
  void suspect(int peer, std::string reason) override {
    if (core_->judged() || peer == rank() || peer < 0 || peer >= core_->world_size()) return;
    Suspect message;
    message.peer = peer;
    message.reason = std::move(reason);
    core_->send(std::move(message));
  }
  void report_failure(std::string reason) override {
    Failure message;
    message.reason = std::move(reason);
    core_->send(std::move(message));
  }
  void on_verdict(std::function<void(const Verdict&)> handler) override {
    core_->on_verdict(std::move(handler));
  }
  void request_stop() override { core_->send(StopRequest()); }
  Task<Result<bool>> may_begin(std::uint64_t step) override {
    return MemberCore::may_begin(core_, step);
  }
  void stand_aside() override { core_->send(Aside()); }
  void ship(Blob blob) override {
    Ship message;
    message.blob = std::move(blob);
    core_->send(std::move(message));
  }
  Task<Result<void>> leave() override { return MemberCore::leave(core_); }
  [[nodiscard]] LinkCounters link_counters() const override { return core_->counters(); }

 private:
  std::shared_ptr<MemberCore> core_;  // shared with its reading coroutine and with calls that wait
};

}  // namespace

Task<Result<std::unique_ptr<Member>>> Member::join(base::Loop& loop, std::unique_ptr<Link> link,
                                                   JobIdentity identity, int rank,
                                                   Options options) {
  if (identity.world_size < 1) {
    co_return base::fail(ErrorKind::invalid_argument,
                         fmt::format("a job needs at least one rank: {}", identity.world_size));
  }
  auto core = std::make_shared<MemberCore>(loop, std::move(link), rank, identity.world_size,
                                           options, std::move(identity.news));
  Hello hello;
  hello.version = std::move(identity.version);
  hello.token = std::move(identity.token);
  hello.configuration = std::move(identity.configuration);
  hello.rank = rank;
  hello.world_size = identity.world_size;
  hello.host = host_name();
  core->start(std::move(hello));
  auto member = std::make_unique<LinkedMember>(core);
  auto welcome = co_await MemberCore::wait_for_welcome(core);
  DLOBD_CO_CHECK(welcome);
  co_return member;
}

}  // namespace dlobd::cluster
