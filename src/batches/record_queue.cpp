#include "batches/record_queue.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "base/binary.h"

namespace dlobd::batches {
namespace {

using Length = std::uint32_t;

constexpr std::byte kGet{1};
constexpr std::byte kTaskDone{2};
constexpr std::byte kDone{3};  // the answer to put and task_done

// False: the other side is gone.
bool write_all(int socket, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

bool read_all(int socket, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(socket, bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

bool write_byte(int socket, std::byte byte) {
  return write_all(socket, std::span(&byte, 1));
}

// An item follows its length.
bool write_item(int socket, std::span<const std::byte> item) {
  std::vector<std::byte> bytes(sizeof(Length) + item.size());
  base::store(bytes.data(), static_cast<Length>(item.size()));
  if (!item.empty()) std::memcpy(bytes.data() + sizeof(Length), item.data(), item.size());
  return write_all(socket, bytes);
}

std::optional<RecordQueue::Item> read_item(int socket) {
  std::array<std::byte, sizeof(Length)> length{};
  if (!read_all(socket, length)) return std::nullopt;
  RecordQueue::Item item(base::load<Length>(length.data()));
  if (!read_all(socket, item)) return std::nullopt;
  return item;
}

base::Failure gone() {
  return base::fail(base::ErrorKind::io_error, "the other end of a queue of records is gone");
}

// The queue itself, on its thread.
class Server {
 public:
  Server(std::size_t depth, base::Descriptor producer, base::Descriptor consumer)
      : depth_(depth), producer_(std::move(producer)), consumer_(std::move(consumer)) {}

  // Until the consumer is gone.
  void run() {
    bool serving = true;
    while (serving) {
      std::array<pollfd, 2> ends{};
      ends[0] = {consumer_.get(), POLLIN, 0};
      ends[1] = {put_waits_ ? -1 : producer_.get(), POLLIN, 0};  // -1 is passed over
      if (::poll(ends.data(), ends.size(), -1) < 0) {
        serving = errno == EINTR;
        continue;
      }
      if (ends[0].revents != 0) serving = hear_consumer();
      if (serving && ends[1].revents != 0) hear_producer();
      if (serving) serving = answer();
    }
  }

 private:
  bool hear_consumer() {
    std::byte request{0};
    if (!read_all(consumer_.get(), std::span(&request, 1))) return false;
    if (request == kTaskDone) return write_byte(consumer_.get(), kDone);
    get_waits_ = true;
    return true;
  }

  void hear_producer() {
    auto item = read_item(producer_.get());
    if (!item) {
      producer_.reset();  // what it has put stays
      return;
    }
    items_.push_back(std::move(*item));
    put_waits_ = true;
  }

  bool answer() {
    if (get_waits_ && !items_.empty()) {
      if (!write_item(consumer_.get(), items_.front())) return false;
      items_.pop_front();
      get_waits_ = false;
    }
    if (put_waits_ && items_.size() < depth_) {
      put_waits_ = false;
      if (!write_byte(producer_.get(), kDone)) producer_.reset();
    }
    // Nothing will come any more, and the consumer waits for it.
    return !(get_waits_ && items_.empty() && !producer_);
  }

  std::size_t depth_;
  base::Descriptor producer_;
  base::Descriptor consumer_;
  std::deque<RecordQueue::Item> items_;
  bool get_waits_ = false;
  bool put_waits_ = false;
};

}  // namespace

// Each end and the server's side of it.
struct RecordQueue::Sockets {
  base::Descriptor producer, producer_served, consumer, consumer_served;

  base::Result<void> make() {
    for (auto [mine, served] :
         {std::pair{&producer, &producer_served}, std::pair{&consumer, &consumer_served}}) {
      std::array<int, 2> pair{};
      if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) {
        return base::fail(
            base::ErrorKind::io_error,
            std::string("no sockets for a queue of records: ") + std::strerror(errno));
      }
      mine->reset(pair[0]);
      served->reset(pair[1]);
    }
    return {};
  }
};

base::Result<std::unique_ptr<RecordQueue>> RecordQueue::open(std::size_t depth) {
  Sockets sockets;
  DLOBD_TRY_VOID(made, sockets.make());
  return std::unique_ptr<RecordQueue>(new RecordQueue(depth, std::move(sockets)));
}

RecordQueue::RecordQueue(std::size_t depth, Sockets sockets)
    : producer_(std::move(sockets.producer)),
      consumer_(std::move(sockets.consumer)),
      thread_([depth, producer = std::move(sockets.producer_served),
               consumer = std::move(sockets.consumer_served)]() mutable {
        Server(depth, std::move(producer), std::move(consumer)).run();
      }) {}

RecordQueue::~RecordQueue() {
  close_consumer();
  thread_.join();
}

base::Result<void> RecordQueue::put(std::span<const std::byte> item) {
  std::byte answer{0};
  if (!write_item(producer_.get(), item) || !read_all(producer_.get(), std::span(&answer, 1))) {
    return gone();
  }
  return {};
}

base::Result<RecordQueue::Item> RecordQueue::get() {
  if (!write_byte(consumer_.get(), kGet)) return gone();
  auto item = read_item(consumer_.get());
  if (!item) return gone();
  return std::move(*item);
}

base::Result<void> RecordQueue::task_done() {
  std::byte answer{0};
  if (!write_byte(consumer_.get(), kTaskDone) ||
      !read_all(consumer_.get(), std::span(&answer, 1))) {
    return gone();
  }
  return {};
}

void RecordQueue::close_consumer() {
  ::shutdown(consumer_.get(), SHUT_RDWR);
}

}  // namespace dlobd::batches
