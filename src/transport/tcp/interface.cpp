#include "transport/tcp/interface.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <vector>

namespace dlobd::transport::tcp {

namespace {

struct Interface {
  std::string name;
  std::string address;
  bool is_v4;
};

std::vector<Interface> interfaces() {
  std::vector<Interface> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    char text[INET6_ADDRSTRLEN] = {};
    if (entry->ifa_addr->sa_family == AF_INET) {
      const auto* address = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
      ::inet_ntop(AF_INET, &address->sin_addr, text, sizeof text);
      found.push_back({entry->ifa_name, text, true});
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      const auto* address = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr);
      if (IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr)) continue;  // needs a scope to be reached
      ::inet_ntop(AF_INET6, &address->sin6_addr, text, sizeof text);
      found.push_back({entry->ifa_name, text, false});
    }
  }
  return found;
}

}  // namespace

base::Result<std::string> interface_address(std::string_view name) {
  const std::vector<Interface> all = interfaces();
  std::optional<std::string> other;
  std::string there;
  for (const Interface& one : all) {
    if (one.name == name && one.is_v4) return one.address;
    if (one.name == name && !other) other = one.address;
    there += fmt::format("{}{} ({})", there.empty() ? "" : ", ", one.name, one.address);
  }
  if (other) return *other;
  return base::fail(
      base::ErrorKind::not_found,
      fmt::format("no network interface of this name has an address: {}; there are: {}", name,
                  there.empty() ? "none" : there));
}

std::optional<std::string> interface_of_address(std::string_view address) {
  for (const Interface& one : interfaces()) {
    if (one.address == address) return one.name;
  }
  return std::nullopt;
}

base::Result<std::string> source_address(const std::string& host_port) {
  const auto colon = host_port.rfind(':');
  std::string host = host_port.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  const std::string port = colon == std::string::npos ? "1" : host_port.substr(colon + 1);
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &list); error != 0) {
    return base::fail(base::ErrorKind::not_found,
                      fmt::format("no address for the host: {}: {}", host, ::gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    // Connecting a datagram socket chooses its source address and sends nothing.
    const int fd = ::socket(entry->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    sockaddr_storage own{};
    socklen_t length = sizeof own;
    char text[NI_MAXHOST] = {};
    const bool found = ::connect(fd, entry->ai_addr, entry->ai_addrlen) == 0 &&
                       ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) == 0 &&
                       ::getnameinfo(reinterpret_cast<sockaddr*>(&own), length, text, sizeof text,
                                     nullptr, 0, NI_NUMERICHOST) == 0;
    ::close(fd);
    if (found) return std::string(text);
  }
  return base::fail(base::ErrorKind::not_found,
                    fmt::format("no route from here to the host: {}", host));
}

}  // namespace dlobd::transport::tcp
