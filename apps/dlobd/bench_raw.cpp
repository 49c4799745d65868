#include "bench_raw.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>

#include "bench_sockets.h"
#include "compute/arena.h"
#include "compute/kernels.h"

namespace dlobd::app {

using base::ErrorKind;
using base::fail;
using base::Result;

std::vector<RawSetting> raw_settings() {
  constexpr std::size_t kKi = 1024;
  return {
      {"raw_poll", false, false, 0},
      {"raw_spin", false, true, 0},
      {"raw_spin_64k", false, true, 64 * kKi},
      {"raw_spin_256k", false, true, 256 * kKi},
      {"raw_spin_1m", false, true, 1024 * kKi},
      {"raw_poll_halves_256k", true, false, 256 * kKi},
      {"raw_spin_halves_64k", true, true, 64 * kKi},
      {"raw_spin_halves_256k", true, true, 256 * kKi},
      {"raw_spin_halves_1m", true, true, 1024 * kKi},
  };
}

std::size_t iterations_of(std::uint64_t bytes) {
  return static_cast<std::size_t>(std::clamp<std::uint64_t>(200'000'000 / bytes, 5, 2000));
}

void fill_for_check(std::span<float> data, int rank) {
  std::fill(data.begin(), data.end(), static_cast<float>(rank + 1));
}

Result<void> check_sum(std::span<const float> data, int rank, int world_size) {
  const auto expected = static_cast<float>(world_size * (world_size + 1) / 2);
  const auto wrong =
      std::find_if(data.begin(), data.end(), [expected](float x) { return x != expected; });
  if (wrong == data.end()) return {};
  return fail(ErrorKind::corrupt_data,
              fmt::format("wrong sum: rank {}, element {} of {}: {} is not {}", rank,
                          wrong - data.begin(), data.size(), *wrong, expected));
}

namespace {

// A stretch of one direction of the stream, made of up to two spans.
struct Stretch {
  std::array<std::span<std::byte>, 2> parts;
  std::size_t done = 0;

  [[nodiscard]] std::size_t size() const { return parts[0].size() + parts[1].size(); }
  // What comes next, up to position `limit` and `piece` bytes.
  [[nodiscard]] std::span<std::byte> next(std::size_t limit, std::size_t piece) const {
    const bool first = done < parts[0].size();
    const std::size_t at = first ? done : done - parts[0].size();
    const auto rest = parts[first ? 0 : 1].subspan(at);
    return rest.first(std::min({rest.size(), limit - done, piece}));
  }
};

class Exchange {
 public:
  Exchange(int fd, const RawSetting& setting, int rank)
      : fd_(fd),
        halves_(setting.halves),
        spin_(setting.spin),
        piece_(setting.piece_bytes == 0 ? std::numeric_limits<std::size_t>::max()
                                        : setting.piece_bytes),
        rank_(rank),
        kernels_(compute::cpu_kernels()) {}

  Result<void> all_reduce(std::span<float> data, std::span<float> scratch) {
    // `mine` is what this rank adds up: all, or its half.
    const std::size_t half = data.size() / 2;
    const auto low = data.first(half);
    const auto high = data.subspan(half);
    const auto mine = !halves_ ? data : rank_ == 0 ? low : high;
    const auto other = !halves_ ? data.first(0) : rank_ == 0 ? high : low;
    const auto theirs = scratch.first(mine.size());
    Stretch out;
    out.parts = {std::as_writable_bytes(halves_ ? other : mine),
                 halves_ ? std::as_writable_bytes(mine) : std::span<std::byte>()};
    Stretch in;
    in.parts = {std::as_writable_bytes(theirs), std::as_writable_bytes(other)};

    std::size_t added = 0;  // bytes of `mine`
    const std::size_t to_add = mine.size_bytes();
    while (out.done < out.size() || in.done < in.size() || added < to_add) {
      // Halves: a sum is sent back once it is there. Whole: all may go at once.
      const std::size_t may_send = halves_ ? out.parts[0].size() + added : out.size();
      bool moved = false;
      DLOBD_TRY(sent, move(true, out.next(may_send, piece_)));
      out.done += sent;
      DLOBD_TRY(received, move(false, in.next(in.size(), piece_)));
      in.done += received;
      moved = sent + received > 0;
      // Whole: what is not sent yet must not change.
      std::size_t ready = std::min(in.done, to_add);
      if (!halves_) ready = std::min(ready, out.done);
      std::size_t end = std::min(ready, added + std::min(piece_, to_add));
      if (end < to_add) end = end / kLine * kLine;
      if (end > added && (end == to_add || end - added >= std::min(piece_, kLeastAdd))) {
        const std::size_t first = added / sizeof(float);
        const std::size_t count = (end - added) / sizeof(float);
        kernels_.add(mine.subspan(first, count), theirs.subspan(first, count));
        added = end;
        moved = true;
      }
      if (!moved && !spin_) wait(out.done < may_send, in.done < in.size());
    }
    return {};
  }

 private:
  static constexpr std::size_t kLine = 64;
  static constexpr std::size_t kLeastAdd = 16 * 1024;  // smaller additions only at the end

  // Bytes moved; 0: not now.
  Result<std::size_t> move(bool out, std::span<std::byte> bytes) {
    if (bytes.empty()) return 0;
    const ssize_t n = out ? send(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL)
                          : recv(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n > 0) return static_cast<std::size_t>(n);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    return fail(ErrorKind::peer_lost, n == 0 ? "the other rank closed the connection"
                                             : "the connection broke: " + system_reason());
  }

  void wait(bool to_send, bool to_receive) const {
    pollfd one{fd_, static_cast<short>((to_send ? POLLOUT : 0) | (to_receive ? POLLIN : 0)), 0};
    poll(&one, 1, 1000);
  }

  int fd_;
  bool halves_;
  bool spin_;
  std::size_t piece_;
  int rank_;
  const compute::Kernels& kernels_;
};

double seconds_since(base::Time start) {
  return std::chrono::duration<double>(base::steady_now() - start).count();
}

// Page-aligned, as the buffers of a replica are.
compute::ParameterArena two_buffers(const std::vector<std::uint64_t>& sizes) {
  compute::ParameterSpec spec;
  spec.name = "buffer";
  spec.shape = {
      static_cast<std::int64_t>(*std::max_element(sizes.begin(), sizes.end()) / sizeof(float))};
  return compute::ParameterArena({spec});
}

}  // namespace

Result<Blob> raw_exchange(Seat& seat, const RawSetting& setting,
                          const std::vector<std::uint64_t>& sizes, std::size_t most) {
  DLOBD_TRY(link, connect_two(seat));
  Exchange exchange(link.fd, setting, seat.rank());
  const auto buffers = two_buffers(sizes);
  std::vector<double> seconds;
  for (const std::uint64_t bytes : sizes) {
    const auto data = buffers.parameters().first(bytes / sizeof(float));
    const auto scratch = buffers.gradients().first(bytes / sizeof(float));
    fill_for_check(data, seat.rank());
    DLOBD_TRY_VOID(checked, exchange.all_reduce(data, scratch));
    DLOBD_TRY_VOID(right, check_sum(data, seat.rank(), seat.world_size()));
    std::fill(data.begin(), data.end(), 0.0F);
    for (std::size_t i = 0; i < std::min(most, warmups_of(bytes)); ++i) {
      DLOBD_TRY_VOID(warm, exchange.all_reduce(data, scratch));
    }
    for (std::size_t i = 0; i < std::min(most, iterations_of(bytes)); ++i) {
      const base::Time start = base::steady_now();
      DLOBD_TRY_VOID(done, exchange.all_reduce(data, scratch));
      seconds.push_back(seconds_since(start));
    }
  }
  return to_blob(seconds);
}

Result<Blob> copy_memory(const std::vector<std::uint64_t>& sizes) {
  const auto buffers = two_buffers(sizes);
  std::fill(buffers.gradients().begin(), buffers.gradients().end(), 1.0F);
  std::vector<double> seconds;
  for (const std::uint64_t bytes : sizes) {
    // Copies of a few KiB take less than reading the clock: as many at once as fill a microsecond.
    const std::size_t batch = std::max<std::size_t>(1, 262'144 / bytes);
    for (std::size_t i = 0; i < warmups_of(bytes) + iterations_of(bytes); ++i) {
      const base::Time start = base::steady_now();
      for (std::size_t k = 0; k < batch; ++k) {
        std::memcpy(buffers.parameters().data(), buffers.gradients().data(), bytes);
        asm volatile("" : : "r"(buffers.parameters().data()) : "memory");  // each copy counts
      }
      if (i >= warmups_of(bytes))
        seconds.push_back(seconds_since(start) / static_cast<double>(batch));
    }
  }
  return to_blob(seconds);
}

}  // namespace dlobd::app
