// A checkpoint: where training stood, bit for bit. One file:
//
//   8 bytes   "DLOBDCK1"
//   8 bytes   length of the header in bytes, little-endian; at most 1 MiB
//   header    JSON: what run it belongs to, where it stood, how many elements follow
//   floats    parameters, state, momentum, residuals: float32, little-endian
//   4 bytes   CRC-32 of all before it
//
// Written to a temporary name, synced, then renamed: a file under its final name is whole.
// Errors: corrupt_data names what is off; invalid_argument names how the checkpoint differs from
// the run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "storage/store.h"

namespace dlobd::training {

struct Checkpoint {
  // What it belongs to, as identity.h says it: resuming anything else would not be the same
  // trajectory.
  std::string run;

  // Where it stood: `step` steps were done; next is batch `batch` of epoch `epoch`.
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  std::uint64_t batch = 0;

  std::vector<float> parameters;
  std::vector<float> state;
  std::vector<float> momentum;
  std::vector<float> residuals;         // what each worker owes, one after the other; mostly none
  std::vector<std::string> generators;  // of each rank's replica

  friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};

std::vector<std::byte> encode(const Checkpoint& checkpoint);
// Allocates nothing that the bytes do not hold.
base::Result<Checkpoint> decode(std::span<const std::byte> bytes);

// `path` is the final name; its folder must exist.
base::Result<void> save(storage::WritableStore& store, const std::string& path,
                        const Checkpoint& checkpoint);
base::Result<Checkpoint> load(storage::Store& store, const std::string& path);

// Does `saved` belong to the run of that identity? The error names the first setting that differs.
base::Result<void> check_same_run(const Checkpoint& saved, const std::string& wanted,
                                  const std::string& path);

}  // namespace dlobd::training
