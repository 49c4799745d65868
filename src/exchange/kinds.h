// The kinds of arrivals and the regions of CaffeOnSpark's exchange, of Collective and of Residuals.
// They are numbers within one design: other protocols name theirs beside themselves.
#pragma once

#include "transport/endpoint.h"

namespace dlobd::exchange::kind {

inline constexpr transport::Kind weights = 0;
inline constexpr transport::Kind gradients = 1;
inline constexpr transport::Kind settled_weights = 2;
inline constexpr transport::Kind settled_momentum = 3;
inline constexpr transport::Kind reduce = 4;  // allreduce: partial sums
inline constexpr transport::Kind gather = 5;  // allreduce: finished sums
inline constexpr transport::Kind settled_residuals = 6;

}  // namespace dlobd::exchange::kind

namespace dlobd::exchange::region {

inline constexpr transport::RegionId parameters = 0;
inline constexpr transport::RegionId gradients = 1;
inline constexpr transport::RegionId momentum = 2;
inline constexpr transport::RegionId scratch = 3;
inline constexpr transport::RegionId staging = 4;
inline constexpr transport::RegionId residuals = 5;

}  // namespace dlobd::exchange::region
