// What the parts of the TCP link share: a connected socket becomes a link.
#pragma once

#include <asio/basic_stream_socket.hpp>
#include <asio/ip/tcp.hpp>
#include <memory>
#include <string>

#include "base/loop.h"
#include "cluster/link.h"

namespace dlobd::cluster {

using TcpSocket = asio::basic_stream_socket<asio::ip::tcp, base::Executor>;

// `limit`: of a frame, until lift_limit().
std::unique_ptr<Link> make_tcp_link(base::Loop& loop, TcpSocket socket, std::size_t limit);

// "127.0.0.1:7000", "[::1]:7000"
std::string to_text(const asio::ip::tcp::endpoint& endpoint);

}  // namespace dlobd::cluster
