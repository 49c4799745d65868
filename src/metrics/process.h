// What the kernel says of this process. Any thread; nothing here fails: 0 where the kernel does not
// say.
#pragma once

#include <cstdint>
#include <string>

namespace dlobd::metrics {

// The most memory this process ever had resident.
std::uint64_t peak_rss_bytes();

// The time on CPUs of all its threads so far, ns: its own and the kernel's for it.
std::int64_t cpu_time_ns();

// When this process started by the wall clock, ns since 1970, to 10 ms (the kernel's tick). A
// process that became another by exec keeps its start.
std::int64_t process_started_unix_ns();

std::int64_t unix_now_ns();

// "2026-03-01T12:00:00.123Z"
std::string iso_time(std::int64_t unix_ns);

}  // namespace dlobd::metrics
