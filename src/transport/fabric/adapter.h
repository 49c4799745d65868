// One opened provider: fabric, domain, address vector, completion queue, endpoint, and what they
// are. Owns libfabric's objects and closes them in their order; close_endpoint() alone first, when
// nothing must be read or written any more.
//
// Threads: belongs to the loop's thread.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "transport/fabric/endpoint.h"

namespace dlobd::transport::fabric {

struct CloseFid {
  template <class T>
  void operator()(T* object) const {
    fi_close(&object->fid);
  }
};
template <class T>
using Owned = std::unique_ptr<T, CloseFid>;

struct FreeInfo {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

// What an endpoint needs of a provider, as hints.
Info hints();
// The text of a negative return value of libfabric, or of an errno.
std::string reason(ssize_t code);

class Adapter {
 public:
  static base::Result<std::unique_ptr<Adapter>> open(const Options& options);
  // Makes the endpoint, with a queue for so many completions, and enables it.
  base::Result<void> enable(std::size_t completions);

  [[nodiscard]] const Opened& opened() const { return opened_; }
  [[nodiscard]] const fi_info& info() const { return *info_; }
  [[nodiscard]] bool has_mr_mode(int bit) const { return (info_->domain_attr->mr_mode & bit) != 0; }

  fid_domain* domain() { return domain_.get(); }
  fid_ep* endpoint() { return endpoint_.get(); }
  fid_cq* queue() { return queue_.get(); }
  // The endpoint's own address, for the peers.
  base::Result<std::string> address();
  base::Result<fi_addr_t> insert(const std::string& address);

  // Every peer has opened what this endpoint shares: it needs no name any more, and leaves nothing
  // in /dev/shm should it be killed.
  void forget_name();

  // The descriptor to sleep on, or -1.
  [[nodiscard]] int wait_descriptor() const { return wait_descriptor_; }
  // Nothing is pending: the descriptor will tell.
  bool may_wait();

  // The provider touches no memory of this process on this endpoint's behalf afterwards.
  void close_endpoint() { endpoint_.reset(); }
  // Leaves all of it open until the process ends: where closing is not safe. Any thread.
  static void abandon(std::unique_ptr<Adapter> adapter);

 private:
  Adapter() = default;
  base::Result<void> open_queue(std::size_t completions);

  bool wants_descriptor_ = true;
  Opened opened_;
  Info info_;
  Owned<fid_fabric> fabric_;
  Owned<fid_domain> domain_;
  Owned<fid_av> addresses_;
  Owned<fid_cq> queue_;
  Owned<fid_ep> endpoint_;
  int wait_descriptor_ = -1;
};

}  // namespace dlobd::transport::fabric
