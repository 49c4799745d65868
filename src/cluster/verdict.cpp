#include <fmt/format.h>

#include "cluster/membership.h"

namespace dlobd::cluster {

base::Error Verdict::error() const {
  const std::string where = phase.empty() ? "" : fmt::format(", in phase {}", phase);
  return {base::ErrorKind::peer_lost,
          cause == Cause::failed ? fmt::format("rank {} failed: {}", culprit, reason)
                                 : fmt::format("peer lost: rank {}{}: {}", culprit, where, reason),
          culprit};
}

}  // namespace dlobd::cluster
