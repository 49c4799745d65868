#include "bench_sockets.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace dlobd::app {

using base::ErrorKind;
using base::fail;
using base::Result;

std::string system_reason() {
  return std::strerror(errno);
}

RawSocket::~RawSocket() {
  if (fd >= 0) close(fd);
}

Result<RawSocket> connect_two(Seat& seat) {
  RawSocket listener(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof address;
  if (seat.rank() == 0 && (bind(listener.fd, generic, length) != 0 || listen(listener.fd, 1) != 0 ||
                           getsockname(listener.fd, generic, &length) != 0)) {
    return fail(ErrorKind::io_error, "cannot listen on loopback: " + system_reason());
  }
  DLOBD_TRY(ports, seat.all_gather(to_blob({static_cast<double>(ntohs(address.sin_port))})));
  if (seat.rank() != 0)
    address.sin_port = htons(static_cast<std::uint16_t>(from_blob(ports[0])[0]));
  RawSocket link(seat.rank() == 0 ? accept(listener.fd, nullptr, nullptr)
                                  : socket(AF_INET, SOCK_STREAM, 0));
  if (link.fd < 0 || (seat.rank() != 0 && connect(link.fd, generic, sizeof address) != 0)) {
    return fail(ErrorKind::io_error, "cannot connect two ranks over loopback: " + system_reason());
  }
  const int on = 1;
  setsockopt(link.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return link;
}

}  // namespace dlobd::app
