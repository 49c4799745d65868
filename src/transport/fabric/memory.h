// Registered memory of one endpoint: the regions that peers write to, which are also what writes
// come from without another registration, and what has to be registered for one write.
//
// The same memory is registered once, however often it is asked for. Nothing is let go before the
// endpoint is closed, but what drop() names. A refusal says what limits it.
//
// Threads: belongs to the loop's thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "transport/fabric/adapter.h"

namespace dlobd::transport::fabric {

struct Registration {
  std::span<std::byte> bytes;
  Owned<fid_mr> handle;       // none for no bytes
  std::uint64_t address = 0;  // of the first byte, as peers must say it
  std::uint64_t key = 0;
  void* local = nullptr;  // what posting from it needs
  bool pinned = false;
};

class Memory {
 public:
  Memory(Adapter& adapter, bool pin) : adapter_(adapter), pin_(pin) {}
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Stays where it is until drop().
  base::Result<const Registration*> add(std::span<std::byte> bytes);
  // The one that covers these bytes, or null.
  [[nodiscard]] const Registration* find(std::span<const std::byte> bytes) const;
  void drop(const Registration* registration);

  [[nodiscard]] std::uint64_t made() const { return made_; }

 private:
  base::Failure refused(std::size_t bytes, int code) const;

  Adapter& adapter_;
  bool pin_;
  std::uint64_t made_ = 0;  // also the next key where the provider wants us to choose
  // By first byte; of those that begin at the same, the largest last.
  std::multimap<const std::byte*, std::unique_ptr<Registration>> all_;
};

}  // namespace dlobd::transport::fabric
