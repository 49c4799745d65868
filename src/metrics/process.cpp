#include "metrics/process.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <sstream>
#include <string>

#include "metrics/files.h"

namespace dlobd::metrics {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

std::int64_t now_ns(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return time.tv_sec * kSecond + time.tv_nsec;
}

}  // namespace

std::uint64_t peak_rss_bytes() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

std::int64_t cpu_time_ns() {
  return now_ns(CLOCK_PROCESS_CPUTIME_ID);
}

std::int64_t process_started_unix_ns() {
  const std::string text = read_text("/proc/self/stat").value_or("");
  // The second field is the program's name in brackets, and may hold anything.
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  std::int64_t ticks = 0;
  if (!(fields >> ticks)) return 0;
  const std::int64_t since_boot = ticks * (kSecond / sysconf(_SC_CLK_TCK));
  return now_ns(CLOCK_REALTIME) - (now_ns(CLOCK_BOOTTIME) - since_boot);
}

std::int64_t unix_now_ns() {
  return now_ns(CLOCK_REALTIME);
}

std::string iso_time(std::int64_t unix_ns) {
  const std::time_t seconds = unix_ns / kSecond;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900,
                     utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                     unix_ns % kSecond / 1'000'000);
}

}  // namespace dlobd::metrics
