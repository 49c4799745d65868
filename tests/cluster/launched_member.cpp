#include "cluster/launched_member.h"

#include <fmt/format.h>

#include <csignal>
#include <memory>

#include "cluster/in_process_link.h"
#include "cluster/local_launcher.h"
#include "cluster/membership.h"
#include "cluster/report_pipe.h"
#include "cluster/tcp_link.h"

namespace dlobd::cluster::testing {

namespace {

using namespace std::chrono_literals;
using base::Result;
using base::Task;

volatile std::sig_atomic_t interrupted = 0;

void on_interrupt(int) {
  interrupted = 1;
}

struct Process {
  explicit Process(int rank) : rank(rank), report(kReportFd) {}

  int rank;
  base::RealLoop loop;
  ReportPipe report;
  JobIdentity identity;
  Member::Options options;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Hub> hub;
  int exit_code = 1;
};

Task<Result<std::unique_ptr<Link>>> link_to_hub(Process* process, std::string rendezvous) {
  if (process->rank != 0) {
    auto dialled = co_await dial(process->loop, std::move(rendezvous), process->loop.now() + 20s);
    co_return dialled;
  }
  auto listener = Listener::from_fd(process->loop, kListenFd);
  DLOBD_CO_CHECK(listener);
  process->listener = std::move(*listener);
  process->hub = Hub::make(process->loop, process->identity, process->options);
  process->hub->on_shipped([process](int rank, const Blob& blob) {
    process->report.write(fmt::format("shipped {} bytes of rank {}", blob.size(), rank));
  });
  process->listener->on_link(
      [process](std::unique_ptr<Link> link) { process->hub->accept(std::move(link)); });
  auto pair = in_process_pair(process->loop);
  process->hub->accept(std::move(pair.second));
  co_return std::move(pair.first);
}

Task<Result<std::uint64_t>> steps(Process* process, Member* member) {
  member->set_phase("train");
  auto together = co_await member->all_gather(Blob());
  DLOBD_CO_CHECK(together);
  process->report.write("ready");
  bool asked = false;
  for (std::uint64_t step = 0;; ++step) {
    auto begin = co_await member->may_begin(step);
    DLOBD_CO_CHECK(begin);
    if (!*begin) co_return step;
    co_await process->loop.sleep_for(std::chrono::milliseconds(1 + process->rank));
    if (interrupted == 0 || asked) continue;
    asked = true;
    member->request_stop();
  }
}

Task<void> live(Process* process, std::string rendezvous) {
  auto link = co_await link_to_hub(process, std::move(rendezvous));
  if (!link) {
    process->report.write(link.error().message);
  } else {
    auto joined = co_await Member::join(process->loop, std::move(*link), process->identity,
                                        process->rank, process->options);
    if (!joined) {
      process->report.write(joined.error().message);
    } else {
      auto member = std::move(*joined);
      auto done = co_await steps(process, member.get());
      member->ship(Blob(100));
      auto left = co_await member->leave();
      if (done && left) process->exit_code = 0;
      process->report.write(!done   ? done.error().message
                            : !left ? left.error().message
                                    : fmt::format("stopped before step {}", *done));
    }
  }
  process->loop.stop();
}

}  // namespace

int run_member(int rank, int ranks, const std::string& rendezvous) {
  std::signal(SIGINT, on_interrupt);
  Process process(rank);
  process.identity.token = "secret";
  process.identity.version = "0.1.0";
  process.identity.world_size = ranks;
  process.options.peer_timeout = 2s;
  process.options.join_timeout = 30s;
  process.loop.spawn(live(&process, rendezvous));
  process.loop.run();
  process.hub.reset();
  process.listener.reset();
  return process.exit_code;
}

}  // namespace dlobd::cluster::testing
