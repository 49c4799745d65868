// A rank as a process: rank 0 has the hub on its inherited socket, the others dial. It trains
// nothing, step by step, until the ranks agree to stop (SIGINT) or the job has a verdict, and
// reports how it ended.
#pragma once

#include <string>

namespace dlobd::cluster::testing {

// Exit code: 0 after an agreed stop, 1 after a verdict.
int run_member(int rank, int ranks, const std::string& rendezvous);

}  // namespace dlobd::cluster::testing
