// The pipe from a rank to its launcher: blobs with a 32-bit little-endian length. The rank's side
// has a thread of its own that writes, so that a slow launcher never blocks a loop; a launcher that
// is gone ends the writing quietly (no SIGPIPE). The launcher's side is a parser that is fed what
// it reads.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.h"

namespace dlobd::cluster {

class ReportPipe {
 public:
  // Takes over `fd`, the writing end.
  explicit ReportPipe(int fd);
  // Writes what is queued, then closes: the launcher sees the end.
  ~ReportPipe();
  ReportPipe(const ReportPipe&) = delete;
  ReportPipe& operator=(const ReportPipe&) = delete;

  // Any thread; queues and returns. A blob has at most kMaxReportBytes.
  void write(std::vector<std::byte> blob);
  void write(std::string_view text);

  static constexpr std::size_t kMaxReportBytes = std::size_t{1} << 30;

 private:
  void run();

  int fd_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::vector<std::byte>> queue_;
  bool closing_ = false;
  bool broken_ = false;
  std::thread thread_;
};

// Cuts a stream of bytes into its blobs. Belongs to one thread.
class ReportParser {
 public:
  using OnBlob = std::function<void(std::vector<std::byte> blob)>;
  explicit ReportParser(OnBlob on_blob) : on_blob_(std::move(on_blob)) {}

  // corrupt_data, then and ever after, for a length that no ReportPipe writes.
  base::Result<void> feed(std::span<const std::byte> bytes);

 private:
  OnBlob on_blob_;
  std::vector<std::byte> buffer_;
  bool corrupt_ = false;
};

}  // namespace dlobd::cluster
