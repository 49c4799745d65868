// Blocks between BigDL's workers: fetching the others', and giving them one's own. Both belong to
// the loop's thread and end with the endpoint's error when it fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/waiters.h"
#include "exchange/bigdl_protocol.h"

namespace dlobd::exchange::bigdl {

// Pulls: asks the driver who holds a block, then the holder for the block itself.
class BlockFetcher {
 public:
  // `look_up_each`: ask the driver every time; otherwise once for each block.
  BlockFetcher(const Context& context, const BlockMemory& memory, bool look_up_each);

  // Hears of each worker whose block is there: in its slot, or, of this worker, where it always is.
  using Here = std::function<void(int from)>;
  // The blocks that this worker needs of all workers, kFetchesAtOnce at once, begun in their order.
  base::Task<base::Result<void>> fetch_all(Sort sort, Here here);

 private:
  enum class Stage : std::uint8_t { none, looked_up, asked_for };

  base::Task<base::Result<void>> fetch_some_at_once(Sort sort, const Here& here,
                                                    base::TaskGroup& sends);
  [[nodiscard]] Block block_from(Sort sort, int from) const;
  int& location(Sort sort, int from);
  void begin(Sort sort, int from, base::TaskGroup& sends);
  void ask_for(Sort sort, int from, base::TaskGroup& sends);
  // The worker whose block this is; or, of a location, -1.
  base::Result<int> take(Sort sort, const transport::Arrival& arrival, base::TaskGroup& sends);

  transport::Endpoint& endpoint_;
  const BlockMemory& memory_;
  int rank_;
  int workers_;
  int driver_;
  bool look_up_each_;
  std::vector<Stage> stages_;   // by worker whose block it is
  std::vector<int> locations_;  // by sort and worker; -1: unknown
};

// Answers the others' requests beside all else, until the driver says farewell.
class BlockServer {
 public:
  BlockServer(const Context& context, const BlockMemory& memory);

  void start();
  [[nodiscard]] bool started() const { return started_; }
  // Returns when nothing runs any more.
  base::Task<void> stopped();

 private:
  base::Task<void> run();
  base::Task<base::Result<void>> answer_requests(base::TaskGroup& writes);
  [[nodiscard]] bool may_have(int peer, const Block& block) const;

  transport::Endpoint& endpoint_;
  const BlockMemory& memory_;
  int rank_;
  int driver_;
  bool started_ = false;
  bool running_ = false;
  base::Waiters changed_;
};

}  // namespace dlobd::exchange::bigdl
