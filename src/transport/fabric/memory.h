// Registered memory of one endpoint: the regions that peers write to, which are also what writes
// come from without another registration, and what has to be registered for one write.
//
// The same memory is registered once, however often it is asked for. Regions last until the
// endpoint is closed; what was registered to write from, until its last writer is through. A
// refusal says what limits it.
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
  bool lasting = false;  // until the endpoint is closed; else until nobody borrows it
  std::size_t borrowers = 0;
};

class Memory {
 public:
  Memory(Adapter& adapter, bool pin) : adapter_(adapter), pin_(pin) {}
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Of a region: lasts.
  base::Result<const Registration*> add(std::span<std::byte> bytes);
  // One that covers these bytes, made if need be; until it is given back.
  base::Result<Registration*> borrow(std::span<const std::byte> bytes);
  void give_back(Registration* registration);

  [[nodiscard]] std::uint64_t made() const { return made_; }
  // Of them, for writes from elsewhere.
  [[nodiscard]] std::uint64_t made_for_writes() const { return made_for_writes_; }

 private:
  base::Result<Registration*> make(std::span<std::byte> bytes);
  base::Failure refused(std::size_t bytes, int code) const;

  Adapter& adapter_;
  bool pin_;
  std::uint64_t made_for_writes_ = 0;
  std::uint64_t made_ = 0;  // also the next key where the provider wants us to choose
  // By first byte.
  std::multimap<const std::byte*, std::unique_ptr<Registration>> all_;
};

}  // namespace dlobd::transport::fabric
