// Slurm's compressed lists, as its environment variables have them.
//
//   nodes   rack[1-2]node[01-04,07],login   a name with ranges in brackets; digits keep their zeros
//   tasks   4(x2),3                         4 on each of the first two nodes, 3 on the third
//
// Both are read to their end and checked, and neither is ever written out: a list of few bytes may
// stand for millions of nodes. Anything else is invalid_argument, with what is wrong and where.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace dlobd::app {

// The first node of the list: "rack1node01".
base::Result<std::string> first_node(std::string_view nodes);

// How many tasks run on the node of this number, counted from 0.
base::Result<int> tasks_on_node(std::string_view tasks, std::uint64_t node);

}  // namespace dlobd::app
