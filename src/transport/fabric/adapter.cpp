#include "transport/fabric/adapter.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "metrics/devices.h"
#include "transport/fabric/gid.h"
#include "transport/fabric/providers.h"
#include "transport/fabric/signals.h"

namespace dlobd::transport::fabric {

namespace {

constexpr std::uint32_t kApi = FI_VERSION(1, 15);

char* copy_of(const std::string& text) {
  return ::strdup(text.c_str());  // fi_freeinfo() frees it
}

base::Failure not_opened(std::string_view what, const Options& options, ssize_t code) {
  return base::fail(base::ErrorKind::io_error,
                    fmt::format("cannot open {} of an RDMA provider: {}: {}", what,
                                options.provider, reason(code)));
}

std::string choice(const Options& options) {
  std::string text = "provider " + options.provider;
  if (!options.device.empty()) text += ", device " + options.device;
  if (!options.address.empty()) text += ", address " + options.address;
  return text;
}

bool is_asked(const fi_info& info, const Options& options) {
  return options.provider == info.fabric_attr->prov_name &&
         (options.device.empty() || options.device == info.domain_attr->name);
}

// An IPv4 address where there is one: IPv6's may be of the link only.
fi_info* first_of(fi_info* all, const Options& options) {
  fi_info* other = nullptr;
  for (fi_info* one = all; one != nullptr; one = one->next) {
    if (!is_asked(*one, options)) continue;
    if (one->addr_format != FI_SOCKADDR_IN6) return one;
    if (other == nullptr) other = one;
  }
  return other;
}

bool is_device_software(const std::string& domain) {
  for (const auto& device : metrics::read_rdma_devices()) {
    if (device.name == domain) return device.software;
  }
  return false;
}

}  // namespace

std::string reason(ssize_t code) {
  return fi_strerror(static_cast<int>(code < 0 ? -code : code));
}

Info hints() {
  Info wanted(fi_allocinfo());
  wanted->caps = FI_MSG | FI_RMA;
  wanted->mode = FI_CONTEXT | FI_CONTEXT2 | FI_RX_CQ_DATA;
  wanted->ep_attr->type = FI_EP_RDM;
  fi_domain_attr& domain = *wanted->domain_attr;
  domain.mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  domain.threading = FI_THREAD_DOMAIN;
  domain.resource_mgmt = FI_RM_ENABLED;
  domain.cq_data_size = 4;
  return wanted;
}

base::Result<std::unique_ptr<Adapter>> Adapter::open(const Options& options) {
  Info wanted = hints();
  wanted->fabric_attr->prov_name = copy_of(options.provider);
  if (!options.device.empty()) wanted->domain_attr->name = copy_of(options.device);
  if (options.progress != ProgressMode::unspecified) {
    const auto mode =
        options.progress == ProgressMode::manual ? FI_PROGRESS_MANUAL : FI_PROGRESS_AUTO;
    wanted->domain_attr->data_progress = mode;
    wanted->domain_attr->control_progress = mode;
  }
  std::string address = options.address;
  if (options.gid_index) {
    DLOBD_TRY(found, address_of_gid(options.device, options.port, *options.gid_index));
    if (!address.empty() && address != found) {
      return base::fail(
          base::ErrorKind::invalid_argument,
          fmt::format("the GID has another address than was asked for: device {}, "
                      "port {}, GID {}: {}, not {}",
                      options.device, options.port, *options.gid_index, found, address));
    }
    address = found;
  }
  // Names of shm are made by the provider; an interface's address says nothing to it.
  const bool by_address = !address.empty() && options.provider != "shm";
  fi_info* found = nullptr;
  const int got = fi_getinfo(kApi, by_address ? address.c_str() : nullptr, nullptr,
                             by_address ? FI_SOURCE : 0, wanted.get(), &found);
  const Info all(found);
  // Some providers pass over a device's name that they do not know.
  found = first_of(found, options);
  if (got == -FI_ENODATA || (got == 0 && found == nullptr)) {
    return base::fail(
        base::ErrorKind::unavailable,
        fmt::format("this host has no such RDMA provider, device or address: {}", choice(options)));
  }
  if (got != 0) return not_opened("the description", options, got);

  std::unique_ptr<Adapter> adapter(new Adapter());
  adapter->info_.reset(fi_dupinfo(found));
  found = adapter->info_.get();
  adapter->wants_descriptor_ = options.wait_descriptor;
  fid_fabric* fabric = nullptr;
  if (const int rc = fi_fabric(found->fabric_attr, &fabric, nullptr); rc != 0) {
    return not_opened("the fabric", options, rc);
  }
  adapter->fabric_.reset(fabric);
  fid_domain* domain = nullptr;
  if (const int rc = fi_domain(fabric, found, &domain, nullptr); rc != 0) {
    return not_opened("the device", options, rc);
  }
  adapter->domain_.reset(domain);

  Opened& opened = adapter->opened_;
  opened.provider = found->fabric_attr->prov_name;
  opened.domain = found->domain_attr->name;
  opened.fabric = found->fabric_attr->name != nullptr ? found->fabric_attr->name : "";
  opened.library = library_version();
  opened.software = is_software(opened.provider) || is_device_software(opened.domain);
  opened.manual_progress = found->domain_attr->data_progress == FI_PROGRESS_MANUAL;
  opened.completion_data_bytes = found->domain_attr->cq_data_size;
  opened.max_message_bytes = found->ep_attr->max_msg_size;
  if (found->nic != nullptr && found->nic->link_attr != nullptr &&
      found->nic->link_attr->speed > 0) {
    opened.bits_per_second = found->nic->link_attr->speed;
  }
  return adapter;
}

base::Result<void> Adapter::open_queue(std::size_t completions) {
  fi_cq_attr attributes{};
  attributes.size = completions;
  attributes.format = FI_CQ_FORMAT_DATA;
  fid_cq* queue = nullptr;
  attributes.wait_obj = wants_descriptor_ ? FI_WAIT_FD : FI_WAIT_NONE;
  int rc = fi_cq_open(domain_.get(), &attributes, &queue, nullptr);
  if (rc != 0 && wants_descriptor_) {
    attributes.wait_obj = FI_WAIT_NONE;
    rc = fi_cq_open(domain_.get(), &attributes, &queue, nullptr);
  }
  if (rc != 0) {
    return base::fail(base::ErrorKind::io_error,
                      fmt::format("cannot open a completion queue: provider {}, {} entries: {}",
                                  opened_.provider, completions, reason(rc)));
  }
  queue_.reset(queue);
  int descriptor = -1;
  if (attributes.wait_obj == FI_WAIT_FD && fi_control(&queue->fid, FI_GETWAIT, &descriptor) == 0) {
    wait_descriptor_ = descriptor;
  }
  opened_.wait_descriptor = wait_descriptor_ >= 0;
  return {};
}

base::Result<void> Adapter::enable(std::size_t completions) {
  DLOBD_TRY_VOID(opened, open_queue(completions));
  const auto failed = [this](std::string_view what, int rc) {
    return base::fail(base::ErrorKind::io_error,
                      fmt::format("cannot make an RDMA endpoint: {}: provider {}, device {}: {}",
                                  what, opened_.provider, opened_.domain, reason(rc)));
  };
  fi_av_attr addresses{};
  addresses.type = FI_AV_UNSPEC;
  fid_av* vector = nullptr;
  if (const int rc = fi_av_open(domain_.get(), &addresses, &vector, nullptr); rc != 0) {
    return failed("its address vector", rc);
  }
  addresses_.reset(vector);
  const KeptSignals signals;  // shm takes some over
  fid_ep* endpoint = nullptr;
  if (const int rc = fi_endpoint(domain_.get(), info_.get(), &endpoint, nullptr); rc != 0) {
    return failed("the endpoint", rc);
  }
  endpoint_.reset(endpoint);
  if (const int rc = fi_ep_bind(endpoint, &vector->fid, 0); rc != 0) {
    return failed("binding its addresses", rc);
  }
  if (const int rc = fi_ep_bind(endpoint, &queue_->fid, FI_TRANSMIT | FI_RECV); rc != 0) {
    return failed("binding its queue", rc);
  }
  if (const int rc = fi_enable(endpoint); rc != 0) return failed("enabling it", rc);
  return {};
}

base::Result<std::string> Adapter::address() {
  std::string bytes(512, '\0');
  std::size_t size = bytes.size();
  const int rc = fi_getname(&endpoint_->fid, bytes.data(), &size);
  if (rc != 0 || size > bytes.size()) {
    return base::fail(base::ErrorKind::io_error,
                      fmt::format("an RDMA endpoint does not say its address: provider {}: {}",
                                  opened_.provider, reason(rc)));
  }
  bytes.resize(size);
  return bytes;
}

base::Result<fi_addr_t> Adapter::insert(const std::string& address) {
  fi_addr_t handle = FI_ADDR_UNSPEC;
  const int inserted = fi_av_insert(addresses_.get(), address.data(), 1, &handle, 0, nullptr);
  if (inserted != 1) {
    return base::fail(
        base::ErrorKind::io_error,
        fmt::format("an RDMA provider does not take a peer's address: {}: {}", opened_.provider,
                    inserted < 0 ? reason(inserted) : "no such address"));
  }
  return handle;
}

void Adapter::forget_name() {
  if (opened_.provider != "shm") return;
  const auto own = address();
  if (!own) return;
  std::string name = own->c_str();  // it ends with a zero
  if (const std::size_t prefix = name.find("://"); prefix != std::string::npos) {
    name.erase(0, prefix + 3);
  }
  ::shm_unlink(("/" + name).c_str());
}

void Adapter::abandon(std::unique_ptr<Adapter> adapter) {
  static std::mutex mutex;
  // Never destroyed: nothing is closed at the end of the process either.
  static auto& abandoned = *new std::vector<std::unique_ptr<Adapter>>;
  const std::lock_guard lock(mutex);
  abandoned.push_back(std::move(adapter));
}

bool Adapter::may_wait() {
  fid* fids[] = {&queue_->fid};
  return fi_trywait(fabric_.get(), fids, 1) == 0;
}

}  // namespace dlobd::transport::fabric
