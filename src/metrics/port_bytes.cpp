#include "metrics/port_bytes.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <map>

#include "metrics/files.h"
#include "metrics/run_record.h"

namespace dlobd::metrics {
namespace {

std::optional<std::uint64_t> number_in(const std::string& path) {
  const auto text = read_text(path);
  if (!text) return std::nullopt;
  const std::string_view digits = trim(*text);
  std::uint64_t number = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size()) return std::nullopt;
  return number;
}

// Words of four bytes. InfiniBand's own counters have 32 bits and stop at the last number.
std::optional<std::uint64_t> bytes_of_words(const std::string& path) {
  const auto words = number_in(path);
  const bool full = words == std::numeric_limits<std::uint32_t>::max() ||
                    words > std::numeric_limits<std::uint64_t>::max() / 4;
  if (!words || full) return std::nullopt;
  return 4 * *words;
}

}  // namespace

std::optional<PortBytes> carried(const PortBytes& before, const PortBytes& now) {
  if (now.sent < before.sent || now.received < before.received) return std::nullopt;
  return PortBytes{now.sent - before.sent, now.received - before.received};
}

std::optional<PortBytes> interface_bytes(const std::string& interface, const std::string& root) {
  const std::string folder = root + "/sys/class/net/" + interface + "/statistics/";
  const auto sent = number_in(folder + "tx_bytes");
  const auto received = number_in(folder + "rx_bytes");
  if (!sent || !received) return std::nullopt;
  return PortBytes{*sent, *received};
}

std::optional<PortBytes> device_bytes(const std::string& device, int port,
                                      const std::string& root) {
  const std::string folder =
      fmt::format("{}/sys/class/infiniband/{}/ports/{}/counters/", root, device, port);
  const auto sent = bytes_of_words(folder + "port_xmit_data");
  const auto received = bytes_of_words(folder + "port_rcv_data");
  if (!sent || !received) return std::nullopt;
  return PortBytes{*sent, *received};
}

std::optional<std::string> other_way(const RunRecord& record) {
  std::map<std::string, int> ranks_of;
  for (const RankSummary& rank : record.ranks) ++ranks_of[rank.host];
  for (const RankSummary& rank : record.ranks) {
    if (!rank.complete || !rank.port || ranks_of[rank.host] != 1) continue;
    const std::uint64_t sent =
        rank.data_sent.bytes + rank.control_sent.bytes + rank.apart_sent.bytes;
    if (rank.port->sent >= sent) continue;
    return fmt::format(
        "the bytes did not go over the network that was asked for: rank {} sent {}, the port that "
        "it "
        "opened ({}) carried {}",
        rank.rank, sent, record.environment.interface.value_or("unnamed"), rank.port->sent);
  }
  return std::nullopt;
}

}  // namespace dlobd::metrics
