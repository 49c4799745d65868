#include "cluster/report_pipe.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "base/check.h"

namespace dlobd::cluster {

namespace {

constexpr std::size_t kHeaderBytes = 4;

}  // namespace

ReportPipe::ReportPipe(int fd) : fd_(fd), thread_([this] { run(); }) {}

ReportPipe::~ReportPipe() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_one();
  thread_.join();
  ::close(fd_);
}

void ReportPipe::write(std::vector<std::byte> blob) {
  CHECK(blob.size() <= kMaxReportBytes, "a report too large for the pipe: {} bytes", blob.size());
  std::vector<std::byte> framed(kHeaderBytes);
  for (std::size_t i = 0; i < kHeaderBytes; ++i) {
    framed[i] = static_cast<std::byte>((blob.size() >> (8 * i)) & 0xFF);
  }
  framed.insert(framed.end(), blob.begin(), blob.end());
  {
    const std::lock_guard lock(mutex_);
    if (broken_) return;
    queue_.push_back(std::move(framed));
  }
  changed_.notify_one();
}

void ReportPipe::write(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  write(std::vector<std::byte>(bytes.begin(), bytes.end()));
}

void ReportPipe::run() {
  // All signals are for other threads; the SIGPIPE of a launcher that is gone comes to this one,
  // and stays blocked.
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closing_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const auto blob = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    bool broken = false;
    for (std::size_t written = 0; written < blob.size() && !broken;) {
      const ssize_t count = ::write(fd_, blob.data() + written, blob.size() - written);
      if (count > 0) written += static_cast<std::size_t>(count);
      broken = count < 0 && errno != EINTR;
    }
    lock.lock();
    if (broken) {
      broken_ = true;
      queue_.clear();
    }
  }
}

base::Result<void> ReportParser::feed(std::span<const std::byte> bytes) {
  if (!corrupt_) buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  std::size_t used = 0;
  while (!corrupt_ && buffer_.size() - used >= kHeaderBytes) {
    std::size_t size = 0;
    for (std::size_t i = 0; i < kHeaderBytes; ++i) {
      size |= std::to_integer<std::size_t>(buffer_[used + i]) << (8 * i);
    }
    corrupt_ = size > ReportPipe::kMaxReportBytes;
    if (corrupt_ || buffer_.size() - used - kHeaderBytes < size) break;
    const auto first = buffer_.begin() + static_cast<std::ptrdiff_t>(used + kHeaderBytes);
    used += kHeaderBytes + size;
    on_blob_(std::vector<std::byte>(first, first + static_cast<std::ptrdiff_t>(size)));
  }
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(used));
  if (corrupt_) {
    buffer_.clear();
    return base::fail(base::ErrorKind::corrupt_data, "report pipe with bytes that are no report");
  }
  return {};
}

}  // namespace dlobd::cluster
