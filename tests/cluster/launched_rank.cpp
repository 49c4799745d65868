// A rank for the launcher's tests: what it does is its first argument.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cluster/launched_member.h"
#include "cluster/local_launcher.h"
#include "cluster/report_pipe.h"

namespace {

using dlobd::cluster::kListenFd;
using dlobd::cluster::kReportFd;
using dlobd::cluster::ReportPipe;

volatile std::sig_atomic_t interrupted = 0;

void on_interrupt(int) {
  interrupted = 1;
}

[[noreturn]] void sleep_for_ever() {
  while (true) ::pause();
}

int report(const std::string& rank, const std::string& rendezvous) {
  int listening = 0;
  socklen_t size = sizeof listening;
  if (::getsockopt(kListenFd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0) listening = -1;
  ReportPipe pipe(kReportFd);
  pipe.write("rank " + rank + " at " + rendezvous + " listening " + std::to_string(listening));
  pipe.write(std::string(3 << 20, 'x'));
  const char* const extra = std::getenv("DLOBD_TEST_EXTRA");
  pipe.write(std::string(extra == nullptr ? "none" : extra));
  std::printf("hello from %s\nno newline", rank.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const std::string rank = argc > 2 ? argv[2] : "";
  const std::string rendezvous = argc > 3 ? argv[3] : "";
  if (what == "report") return report(rank, rendezvous);
  if (what == "member") {
    const int ranks = argc > 4 ? std::atoi(argv[4]) : 1;
    return dlobd::cluster::testing::run_member(std::atoi(rank.c_str()), ranks, rendezvous);
  }
  if (what == "exit") return std::atoi(rank.c_str());
  if (what == "abort") {
    std::fputs("about to end\n", stderr);
    std::signal(SIGABRT, SIG_DFL);
    std::abort();
  }
  if (what == "sleep") sleep_for_ever();
  if (what == "stubborn") {
    std::signal(SIGTERM, SIG_IGN);
    std::signal(SIGINT, SIG_IGN);
    std::puts("ready");
    std::fflush(stdout);
    sleep_for_ever();
  }
  if (what == "grandchild") {
    const pid_t child = ::fork();
    if (child == 0) sleep_for_ever();
    std::printf("%d", child);
    return 0;
  }
  if (what == "interruptible") {
    std::signal(SIGINT, on_interrupt);
    std::puts("ready");
    std::fflush(stdout);
    while (interrupted == 0) ::usleep(1000);
    std::puts("ending in order");
    return 130;
  }
  return 99;
}
