#include "compute/arena.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "base/check.h"

namespace dlobd::compute {
namespace {

// The largest page that memory registration or the kernel may round to on common hosts.
constexpr std::size_t kPageBytes = 4096;

std::size_t whole_pages(std::size_t elements) {
  return (elements * sizeof(float) + kPageBytes - 1) / kPageBytes * kPageBytes;
}

class NoMemory : public std::bad_alloc {
 public:
  explicit NoMemory(std::string message) : message_(std::move(message)) {}
  [[nodiscard]] const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

}  // namespace

ParameterArena::ParameterArena(const std::vector<ParameterSpec>& parameters, std::size_t state_size,
                               Backing backing)
    : state_size_(state_size), backing_(backing) {
  views_.reserve(parameters.size());
  for (const ParameterSpec& spec : parameters) {
    ParameterView view;
    view.name = spec.name;
    view.shape = spec.shape;
    view.offset = size_;
    view.size = 1;
    for (const std::int64_t extent : spec.shape) {
      CHECK(extent > 0, "parameter {} has an extent of {}", spec.name, extent);
      view.size *= static_cast<std::size_t>(extent);
    }
    view.lr_multiplier = spec.lr_multiplier;
    view.decay_multiplier = spec.decay_multiplier;
    size_ += view.size;
    views_.push_back(std::move(view));
  }
  // One mapping: parameters, gradients, state, each from a page of its own.
  const std::size_t region_bytes = whole_pages(size_);
  mapped_bytes_ = 2 * region_bytes + whole_pages(state_size_);
  if (mapped_bytes_ == 0) return;
  const bool phantom = backing == Backing::phantom;
  const int protection = phantom ? PROT_NONE : PROT_READ | PROT_WRITE;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (phantom ? MAP_NORESERVE : 0);
  void* memory = mmap(nullptr, mapped_bytes_, protection, flags, -1, 0);
  if (memory == MAP_FAILED) {
    throw NoMemory(fmt::format("no memory for parameters and gradients: {} bytes: {}",
                               mapped_bytes_, std::strerror(errno)));
  }
  auto* bytes = static_cast<std::byte*>(memory);
  parameters_ = reinterpret_cast<float*>(bytes);
  gradients_ = reinterpret_cast<float*>(bytes + region_bytes);
  state_ = reinterpret_cast<float*>(bytes + 2 * region_bytes);
}

ParameterArena::ParameterArena(ParameterArena&& other) noexcept
    : size_(std::exchange(other.size_, 0)),
      state_size_(std::exchange(other.state_size_, 0)),
      mapped_bytes_(std::exchange(other.mapped_bytes_, 0)),
      backing_(other.backing_),
      views_(std::move(other.views_)),
      parameters_(std::exchange(other.parameters_, nullptr)),
      gradients_(std::exchange(other.gradients_, nullptr)),
      state_(std::exchange(other.state_, nullptr)) {
  other.views_.clear();
}

ParameterArena& ParameterArena::operator=(ParameterArena&& other) noexcept {
  ParameterArena taken(std::move(other));
  std::swap(size_, taken.size_);
  std::swap(state_size_, taken.state_size_);
  std::swap(mapped_bytes_, taken.mapped_bytes_);
  std::swap(backing_, taken.backing_);
  std::swap(views_, taken.views_);
  std::swap(parameters_, taken.parameters_);
  std::swap(gradients_, taken.gradients_);
  std::swap(state_, taken.state_);
  return *this;
}

ParameterArena::~ParameterArena() {
  if (mapped_bytes_ > 0) munmap(parameters_, mapped_bytes_);
}

}  // namespace dlobd::compute
