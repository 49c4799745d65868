// Who is who in a job. Ranks run through the workers, which hold a replica each, and then through
// the servers of the design, if it has any: parameter servers, or BigDL's driver.
#pragma once

namespace dlobd::exchange {

struct Layout {
  int workers = 1;
  int servers = 0;

  [[nodiscard]] int world_size() const { return workers + servers; }
  [[nodiscard]] bool is_worker(int rank) const { return rank < workers; }
};

}  // namespace dlobd::exchange
