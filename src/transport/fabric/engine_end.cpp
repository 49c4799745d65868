// How an endpoint over libfabric ends, or a link of it: broken, failed, silent, or in order.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <array>

#include "transport/fabric/engine.h"

namespace dlobd::transport::fabric {

namespace {

// The last words of an endpoint that fails go out within this time, or not.
constexpr base::Duration kFlush = std::chrono::milliseconds(2);
// After so long nothing is on its way, also where other processes and the kernel's own threads
// (which carry Soft-RoCE) wait for a busy core.
constexpr base::Duration kQuiet = std::chrono::milliseconds(30);

}  // namespace

base::Task<base::Result<void>> Engine::verdict() {
  while (!error()) co_await changed_.wait();
  co_return base::fail(*error());
}

// A message has found its link closed. If that was no break until now (the peer left in order), it
// is.
void Engine::lost(Peer& to) {
  if (leaving_ || to.broken || error()) return;
  break_link(to, base::ErrorKind::io_error, "the peer left before this message");
}

void Engine::break_link(Peer& with, base::ErrorKind kind, const std::string& why) {
  if (with.broken || closed_ || error()) return;
  with.broken = true;
  abandon(with);
  if (leaving_) {
    changed_.wake_all();
    return;
  }
  // Never inside a call of the endpoint's user, whose write may be what finds it.
  const base::Error error(kind, fmt::format("{}: rank {}", why, with.rank), with.rank);
  loop().post([this, here = std::weak_ptr<bool>(here_), rank = with.rank, error] {
    if (!here.expired()) link_broke(rank, error);
  });
}

void Engine::abandon(Peer& with) {
  with.control.clear();
  const auto give_up = [this](Outgoing* outgoing) {
    if (outgoing->abandoned || outgoing->done) return;
    outgoing->abandoned = true;
    if (outgoing->resume) loop().post(std::move(outgoing->resume));
  };
  for (Outgoing* one = with.head; one != nullptr; one = one->next) give_up(one);
  with.head = with.tail = nullptr;
  // The provider may still read what they own: they wait for fail(), which closes the endpoint.
  for (Operation& write : writes_) {
    if (write.owner == nullptr || write.peer != with.rank) continue;
    give_up(write.owner);
    write.owner = nullptr;
  }
}

void Engine::failed() {
  tell_gone();
  close();
  changed_.wake_all();
}

void Engine::tell_gone() {
  if (closed_ || stuck_ || !adapter_->endpoint()) return;
  std::string why = error() ? error()->message : "it ended";
  why.resize(std::min<std::size_t>(why.size(), 500));
  const auto* first = reinterpret_cast<const std::byte*>(why.data());
  for (Peer& to : peers_) {
    if (!to.connected || to.broken || to.said_bye()) continue;
    Header header;
    header.type = PacketType::gone;
    header.bytes = why.size();
    post_packet(to, header, std::span(first, why.size()), true);
  }
  // Until they are out, or not for long: a peer that does not take them has another heartbeat.
  const base::Time end = loop().now() + kFlush;
  while (free_packets_.size() < packets_.size() && loop().now() < end && !stuck_) {
    fi_cq_data_entry event{};
    const ssize_t got = call([&] { return fi_cq_read(adapter_->queue(), &event, 1); });
    if (got == 1) {
      Operation* operation = operation_of(event.op_context);
      if (operation != nullptr && operation->type == Operation::Type::packet) {
        free_packets_.push_back(operation);
      }
    } else if (got == -FI_EAVAIL) {
      fi_cq_err_entry wrong{};
      fi_cq_readerr(adapter_->queue(), &wrong, 0);
      Operation* operation = operation_of(wrong.op_context);
      if (operation != nullptr && operation->type == Operation::Type::packet) {
        free_packets_.push_back(operation);
      }
    } else if (got != -FI_EAGAIN) {
      break;
    }
  }
}

void Engine::close() {
  if (closed_) return;
  closed_ = true;
  if (progress_) progress_->stop();
  // These two are closed when the endpoint goes. shm touches nothing unless it is polled, and
  // endpoints of one process use each other's memory, so that one must not go while another is
  // polled. For verbs see drain(): what an adapter still reads, it reads from pages that stay where
  // they are.
  if (opened().provider != "shm" && !over_verbs()) adapter_->close_endpoint();
  for (Peer& each : peers_) abandon(each);
  blocked_.clear();
}

// rxm (of libfabric 1.17, over verbs) uses what it has closed if messages come while it closes. So
// what has come is taken, until nothing comes any more. False if that does not end.
bool Engine::drain() {
  if (!over_verbs() || !adapter_->endpoint() || peers_.empty()) return true;
  const base::Time end = loop().now() + 10 * kQuiet;
  base::Time last = loop().now();
  while (loop().now() < end) {
    std::array<fi_cq_data_entry, 16> events;
    const ssize_t got = fi_cq_read(adapter_->queue(), events.data(), events.size());
    if (got == -FI_EAVAIL) {
      fi_cq_err_entry wrong{};
      fi_cq_readerr(adapter_->queue(), &wrong, 0);
    } else if (got < 0 && got != -FI_EAGAIN) {
      return false;
    }
    if (got > 0 || got == -FI_EAVAIL) {
      last = loop().now();
    } else if (loop().now() - last >= kQuiet) {
      return true;
    } else {
      ::sched_yield();  // to whom may have something to bring
    }
  }
  return false;
}

// Links on which nothing moves although something should.
void Engine::watch(base::Time now) {
  if (now < lookout_.due() || stuck_) return;
  const bool on_time = lookout_.on_time(now);
  lookout_.arm(now);
  for (Peer& each : peers_) {
    if (!on_time) each.progress = now;
    if (each.broken || each.idle() || now - each.progress < options_.peer_timeout) continue;
    break_link(each, base::ErrorKind::deadline_exceeded,
               fmt::format("posted bytes made no progress for {} ms",
                           options_.peer_timeout / std::chrono::milliseconds(1)));
    if (closed_) return;
  }
}

std::vector<int> Engine::without_bye() const {
  std::vector<int> ranks;
  for (const Peer& each : peers_) {
    if (!each.connected || each.broken || (each.said_bye() && each.idle())) continue;
    ranks.push_back(each.rank);
  }
  return ranks;
}

base::Task<base::Result<void>> Engine::shutdown() {
  if (error()) co_return base::fail(*error());
  leaving_ = true;
  for (Peer& each : peers_) {
    if (each.connected && !each.broken) control(each, PacketType::bye, {});
  }
  const std::function<bool()> over = [this] { return error() || without_bye().empty(); };
  co_await wait_for(changed_, over, options_.peer_timeout);
  if (error()) co_return base::fail(*error());
  const std::vector<int> late = without_bye();
  progress_->stop();
  if (late.empty()) co_return base::Result<void>();
  if (stuck_) {  // it cannot hear them: whose fault that is, the membership finds out
    co_return base::fail(base::ErrorKind::deadline_exceeded,
                         fmt::format("no goodbye could be heard: ranks {}", fmt::join(late, ", ")));
  }
  co_return base::fail(no_goodbye(late, options_.peer_timeout));
}

}  // namespace dlobd::transport::fabric
