// The text of a simulated link: latency=20us,bandwidth=1.25GB/s,send=5us,receive=5us,jitter=0us
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "transport/simulated/link_model.h"

namespace dlobd::app {

// 10 Gb/s Ethernet with a kernel's TCP at both ends.
inline constexpr std::string_view kDefaultLink =
    "latency=20us,bandwidth=1.25GB/s,send=5us,receive=5us,jitter=0us";

// "key=value,key=value": invalid_argument names a key that is there twice.
base::Result<void> refuse_repeated(const char* option, std::string_view words);

// Keys: latency, send, receive (per message), piece_send, piece_receive (per 256-byte piece),
// jitter: times in ns, us, ms or s; bandwidth: B/s, kB/s, MB/s or GB/s (1e9); 0 needs no unit, and
// of the bandwidth means unlimited. What is left out is as in kDefaultLink. invalid_argument names
// the word that is off.
base::Result<transport::simulated::LinkModel> parse_link(std::string_view text);

}  // namespace dlobd::app
