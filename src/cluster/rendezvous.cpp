#include "cluster/rendezvous.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/secret.h"
#include "base/settings.h"

namespace dlobd::cluster {

Rendezvous::Rendezvous(JobIdentity identity)
    : identity_(std::move(identity)),
      hosts_(static_cast<std::size_t>(std::max(identity_.world_size, 0))) {}

std::string Rendezvous::objection(const Hello& hello) {
  if (!base::same_secret(identity_.token, hello.token)) return "wrong job token";
  if (hello.rank < 0 || hello.rank >= identity_.world_size) {
    return fmt::format("rank {} is not in a job of {}", hello.rank, identity_.world_size);
  }
  std::string reason = difference(hello);
  if (!reason.empty()) refused_[hello.rank] = reason;
  return reason;
}

std::string Rendezvous::difference(const Hello& hello) const {
  if (hello.version != identity_.version) {
    return fmt::format("version {} here, {} there", hello.version, identity_.version);
  }
  if (hello.world_size != identity_.world_size) {
    return fmt::format("world size {} here, {} there", hello.world_size, identity_.world_size);
  }
  if (const auto differs = base::first_difference(hello.configuration, identity_.configuration)) {
    return fmt::format("configuration differs: {} is {} here, {} there", differs->key,
                       differs->here, differs->there);
  }
  const auto& host = hosts_[static_cast<std::size_t>(hello.rank)];
  if (!host) return {};
  return fmt::format("rank {} has already joined{}", hello.rank,
                     *host == hello.host ? "" : ", from host " + *host);
}

void Rendezvous::admit(const Hello& hello) {
  hosts_[static_cast<std::size_t>(hello.rank)] = hello.host;
  ++admitted_;
}

Refuse Rendezvous::incomplete(base::Duration join_timeout) const {
  std::vector<int> missing;
  std::string refused;
  for (int rank = 0; rank < identity_.world_size; ++rank) {
    if (hosts_[static_cast<std::size_t>(rank)]) continue;
    missing.push_back(rank);
    const auto why = refused_.find(rank);
    if (why != refused_.end()) {
      refused += fmt::format("; rank {} was refused: {}", rank, why->second);
    }
  }
  Refuse refuse;
  refuse.kind = base::ErrorKind::deadline_exceeded;
  if (missing.size() == 1) refuse.rank = missing.front();
  refuse.reason = fmt::format("{} {} did not join within {:g} s{}",
                              missing.size() == 1 ? "rank" : "ranks", fmt::join(missing, ", "),
                              std::chrono::duration<double>(join_timeout).count(), refused);
  return refuse;
}

}  // namespace dlobd::cluster
