// shm's queues lie in shared memory and are locked by spinning: who is killed while it holds such a
// lock leaves others to spin. Here the child dies just before it would release one.
#include <dlfcn.h>
#include <fmt/format.h>
#include <pthread.h>

#include <charconv>
#include <fstream>

#include "fabric_processes.h"

namespace {

// Whose queue's lock the child dies with; none as long as it shall live.
enum class Victim { none, own_queue, peers_queue };
Victim victim = Victim::none;

// Of the process in whose name the shared memory around `lock` was made; 0 if it is not shared.
pid_t owner_of(const volatile void* lock) {
  std::ifstream maps("/proc/self/maps");
  const auto wanted = reinterpret_cast<std::uintptr_t>(lock);
  for (std::string line; std::getline(maps, line);) {
    const std::size_t name = line.find("/dev/shm/");
    if (name == std::string::npos) continue;
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    const char* const last = line.data() + line.size();
    const char* at = std::from_chars(line.data(), last, begin, 16).ptr;
    std::from_chars(at + 1, last, end, 16);
    if (wanted < begin || wanted >= end) continue;
    pid_t owner = 0;
    std::from_chars(line.data() + name + 9, last, owner);
    return owner;
  }
  return 0;
}

}  // namespace

// In place of the C library's, also for libfabric.
extern "C" int pthread_spin_unlock(pthread_spinlock_t* lock) noexcept {
  using Unlock = int (*)(pthread_spinlock_t*);
  static const auto real = reinterpret_cast<Unlock>(::dlsym(RTLD_NEXT, "pthread_spin_unlock"));
  if (victim != Victim::none) {
    const pid_t owner = owner_of(lock);
    const bool own = owner == ::getpid();
    if (owner != 0 && own == (victim == Victim::own_queue)) ::raise(SIGKILL);
  }
  return real(lock);
}

namespace dlobd::transport {
namespace {

using namespace std::chrono_literals;

void die_later(Endpoint& endpoint, Victim with) {
  endpoint.loop().call_after(100ms, [with] { victim = with; });
}

base::Task<void> die_reading(Endpoint& endpoint, std::span<std::byte> memory) {
  die_later(endpoint, Victim::own_queue);
  co_await read_on(endpoint, memory);
}

base::Task<void> die_writing(Endpoint& endpoint, std::span<std::byte> memory) {
  die_later(endpoint, Victim::peers_queue);
  co_await write_on(endpoint, memory);
}

// A heartbeat hears of the death, as in a job; then all ends. Nothing hangs before, and nothing
// after: neither the loop, nor the endpoint's end.
template <base::Task<void> (*Body)(Endpoint&, std::span<std::byte>)>
base::Task<void> survive(Endpoint& endpoint, std::span<std::byte> memory) {
  const base::Time begun = endpoint.loop().now();
  endpoint.on_link_broken([&endpoint](int peer, const base::Error& why) {
    EXPECT_EQ(peer, 1);
    EXPECT_NE(why.message.find("rank 1"), std::string::npos) << why.message;
    endpoint.fail(gone());
  });
  endpoint.loop().call_after(1s, [&endpoint] { endpoint.fail(gone()); });
  co_await Body(endpoint, memory);
  EXPECT_LT(endpoint.loop().now() - begun, 4s);
}

TEST(FabricLocks, AReceiverKilledWithItsQueueLocked) {
  EXPECT_EQ(WTERMSIG(run_two_processes("shm", survive<write_on>, die_reading)), SIGKILL);
}

TEST(FabricLocks, ASenderKilledWithThePeersQueueLocked) {
  EXPECT_EQ(WTERMSIG(run_two_processes("shm", survive<read_on>, die_writing)), SIGKILL);
}

}  // namespace
}  // namespace dlobd::transport
