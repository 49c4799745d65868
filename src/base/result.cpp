#include "base/result.h"

namespace dlobd::base {

std::string_view name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument: return "invalid_argument";
    case ErrorKind::not_found: return "not_found";
    case ErrorKind::corrupt_data: return "corrupt_data";
    case ErrorKind::io_error: return "io_error";
    case ErrorKind::refused: return "refused";
    case ErrorKind::unavailable: return "unavailable";
    case ErrorKind::deadline_exceeded: return "deadline_exceeded";
    case ErrorKind::peer_lost: return "peer_lost";
    case ErrorKind::diverged: return "diverged";
    case ErrorKind::cancelled: return "cancelled";
  }
  return "unknown";
}

}  // namespace dlobd::base
