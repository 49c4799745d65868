#include "transport/fabric/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>

namespace dlobd::transport::fabric {

namespace {

std::string memory_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return "a number that is not known of";
  if (limit.rlim_cur == RLIM_INFINITY) return "any number of";
  return fmt::format("{}", limit.rlim_cur);
}

}  // namespace

Memory::~Memory() {
  for (const auto& [first, one] : all_) {
    if (one->pinned) ::munlock(one->bytes.data(), one->bytes.size());
  }
}

base::Failure Memory::refused(std::size_t bytes, int code) const {
  const std::string& provider = adapter_.opened().provider;
  if (code == ENOMEM || code == EPERM || code == EAGAIN) {
    return base::fail(
        base::ErrorKind::io_error,
        fmt::format("memory cannot be registered for RDMA, a process may lock {} bytes: raise "
                    "RLIMIT_MEMLOCK (`ulimit -l unlimited`; memlock in "
                    "/etc/security/limits.conf; docker run --ulimit memlock=-1): provider {}, "
                    "{} bytes, {} registered before: {}",
                    memory_limit(), provider, bytes, made_, reason(code)));
  }
  return base::fail(base::ErrorKind::io_error,
                    fmt::format("memory cannot be registered for RDMA: provider {}, {} bytes, {} "
                                "registered before: {}",
                                provider, bytes, made_, reason(code)));
}

base::Result<const Registration*> Memory::add(std::span<std::byte> bytes) {
  const auto same = all_.equal_range(bytes.data());
  for (auto it = same.first; it != same.second; ++it) {
    Registration& one = *it->second;
    if (one.bytes.size() != bytes.size()) continue;
    one.lasting = true;
    return &one;
  }
  DLOBD_TRY(made, make(bytes));
  made->lasting = true;
  return made;
}

base::Result<Registration*> Memory::make(std::span<std::byte> bytes) {
  auto one = std::make_unique<Registration>();
  one->bytes = bytes;
  if (!bytes.empty()) {
    if (pin_) {
      // mlock() itself does nothing under the address sanitizer.
      if (::mlock2(bytes.data(), bytes.size(), 0) != 0) return refused(bytes.size(), errno);
      one->pinned = true;
    }
    fid_mr* handle = nullptr;
    const int rc = fi_mr_reg(adapter_.domain(), bytes.data(), bytes.size(),
                             FI_SEND | FI_RECV | FI_WRITE | FI_REMOTE_WRITE, 0, made_ + 1, 0,
                             &handle, nullptr);
    if (rc != 0) {
      if (one->pinned) ::munlock(bytes.data(), bytes.size());
      return refused(bytes.size(), -rc);
    }
    one->handle.reset(handle);
    one->key = fi_mr_key(handle);
    one->local = fi_mr_desc(handle);
    if (adapter_.has_mr_mode(FI_MR_VIRT_ADDR)) {
      one->address = reinterpret_cast<std::uintptr_t>(bytes.data());
    }
    ++made_;
  }
  Registration* made = one.get();
  all_.emplace(bytes.data(), std::move(one));
  return made;
}

base::Result<Registration*> Memory::borrow(std::span<const std::byte> bytes) {
  // Registrations may overlap, so the nearest that begins before need not be the one.
  for (auto it = all_.upper_bound(bytes.data()); it != all_.begin();) {
    Registration& one = *(--it)->second;
    const auto offset = static_cast<std::size_t>(bytes.data() - one.bytes.data());
    if (offset > one.bytes.size() || bytes.size() > one.bytes.size() - offset) continue;
    ++one.borrowers;
    return &one;
  }
  auto* first = const_cast<std::byte*>(bytes.data());  // only read
  DLOBD_TRY(made, make(std::span(first, bytes.size())));
  ++made_for_writes_;
  ++made->borrowers;
  return made;
}

void Memory::give_back(Registration* registration) {
  if (--registration->borrowers > 0 || registration->lasting) return;
  const auto same = all_.equal_range(registration->bytes.data());
  for (auto it = same.first; it != same.second; ++it) {
    if (it->second.get() != registration) continue;
    if (registration->pinned) ::munlock(registration->bytes.data(), registration->bytes.size());
    all_.erase(it);
    return;
  }
}

}  // namespace dlobd::transport::fabric
