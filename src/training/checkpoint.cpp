#include "training/checkpoint.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/settings.h"

namespace dlobd::training {

namespace {

constexpr std::string_view kMagic = "DLOBDCK1";
constexpr std::uint64_t kMaxHeaderBytes = 1 << 20;
constexpr std::size_t kPrefixBytes = 16;
constexpr std::size_t kChecksumBytes = 4;

using base::ErrorKind;
using base::fail;

std::uint32_t checksum(std::span<const std::byte> bytes) {
  uLong crc = crc32_z(0, nullptr, 0);
  return static_cast<std::uint32_t>(
      crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

template <class T>
void append(std::vector<std::byte>& out, const T* items, std::size_t count) {
  const auto bytes = std::as_bytes(std::span<const T>(items, count));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// Generator states are bytes; JSON holds text.
std::string to_hex(const std::string& bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char byte : bytes) {
    fmt::format_to(std::back_inserter(text), "{:02x}", static_cast<unsigned char>(byte));
  }
  return text;
}

int nibble(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  return -1;
}

base::Result<std::string> from_hex(const std::string& text) {
  if (text.size() % 2 != 0) return fail(ErrorKind::corrupt_data, "a generator state is cut off");
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = nibble(text[i]);
    const int low = nibble(text[i + 1]);
    if (high < 0 || low < 0) {
      return fail(ErrorKind::corrupt_data, "a generator state is not in hexadecimal digits");
    }
    bytes.push_back(static_cast<char>(16 * high + low));
  }
  return bytes;
}

nlohmann::json header_of(const Checkpoint& checkpoint) {
  std::vector<std::string> generators;
  for (const auto& state : checkpoint.generators) generators.push_back(to_hex(state));
  return {{"run", checkpoint.run},
          {"step", checkpoint.step},
          {"epoch", checkpoint.epoch},
          {"batch", checkpoint.batch},
          {"parameters", checkpoint.parameters.size()},
          {"state", checkpoint.state.size()},
          {"momentum", checkpoint.momentum.size()},
          {"residuals", checkpoint.residuals.size()},
          {"generators", generators}};
}

// Reads the fields; sizes are checked against `float_bytes`, what the file has left.
base::Result<Checkpoint> from_header(const nlohmann::json& header,
                                     std::span<const std::byte> floats) {
  Checkpoint checkpoint;
  std::uint64_t counts[4];
  std::vector<std::string> generators;
  try {
    header.at("run").get_to(checkpoint.run);
    header.at("step").get_to(checkpoint.step);
    header.at("epoch").get_to(checkpoint.epoch);
    header.at("batch").get_to(checkpoint.batch);
    header.at("parameters").get_to(counts[0]);
    header.at("state").get_to(counts[1]);
    header.at("momentum").get_to(counts[2]);
    counts[3] = header.value("residuals", std::uint64_t{0});  // older files have none
    header.at("generators").get_to(generators);
  } catch (const nlohmann::json::exception& wrong) {
    return fail(ErrorKind::corrupt_data,
                fmt::format("the header is not as it should be: {}", wrong.what()));
  }
  const std::uint64_t available = floats.size() / sizeof(float);
  std::uint64_t stated = 0;
  for (const std::uint64_t count : counts) {
    if (count > available)
      stated = std::numeric_limits<std::uint64_t>::max();
    else if (stated <= available)
      stated += count;
  }
  if (stated != available || floats.size() % sizeof(float) != 0) {
    return fail(
        ErrorKind::corrupt_data,
        fmt::format("the header states {} + {} + {} + {} floats, the file holds {} bytes of them",
                    counts[0], counts[1], counts[2], counts[3], floats.size()));
  }
  std::vector<float>* const parts[] = {&checkpoint.parameters, &checkpoint.state,
                                       &checkpoint.momentum, &checkpoint.residuals};
  std::size_t offset = 0;
  for (int i = 0; i < 4; ++i) {
    parts[i]->resize(counts[i]);
    const std::size_t bytes = counts[i] * sizeof(float);
    if (bytes > 0) std::memcpy(parts[i]->data(), floats.data() + offset, bytes);
    offset += bytes;
  }
  for (const auto& text : generators) {
    DLOBD_TRY(state, from_hex(text));
    checkpoint.generators.push_back(state);
  }
  return checkpoint;
}

}  // namespace

std::vector<std::byte> encode(const Checkpoint& checkpoint) {
  const std::string header = header_of(checkpoint).dump();
  const std::uint64_t header_bytes = header.size();
  std::vector<std::byte> out;
  out.reserve(kPrefixBytes + header.size() + kChecksumBytes +
              sizeof(float) * (checkpoint.parameters.size() + checkpoint.state.size() +
                               checkpoint.momentum.size() + checkpoint.residuals.size()));
  append(out, kMagic.data(), kMagic.size());
  append(out, &header_bytes, 1);
  append(out, header.data(), header.size());
  for (const auto* part :
       {&checkpoint.parameters, &checkpoint.state, &checkpoint.momentum, &checkpoint.residuals}) {
    append(out, part->data(), part->size());
  }
  const std::uint32_t crc = checksum(out);
  append(out, &crc, 1);
  return out;
}

base::Result<Checkpoint> decode(std::span<const std::byte> bytes) {
  if (bytes.size() < kPrefixBytes + kChecksumBytes ||
      std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    return fail(ErrorKind::corrupt_data,
                fmt::format("not a checkpoint: it does not begin with {}", kMagic));
  }
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data() + kMagic.size(), sizeof header_bytes);
  if (header_bytes > kMaxHeaderBytes ||
      header_bytes > bytes.size() - kPrefixBytes - kChecksumBytes) {
    return fail(ErrorKind::corrupt_data,
                fmt::format("the checkpoint is cut off: header of {} bytes, file of {}",
                            header_bytes, bytes.size()));
  }
  std::uint32_t stored = 0;
  const auto body = bytes.first(bytes.size() - kChecksumBytes);
  std::memcpy(&stored, bytes.data() + body.size(), sizeof stored);
  if (const std::uint32_t computed = checksum(body); stored != computed) {
    return fail(
        ErrorKind::corrupt_data,
        fmt::format("the checkpoint is damaged or cut off: checksum {:08x}, bytes give {:08x}",
                    stored, computed));
  }
  const auto* text = reinterpret_cast<const char*>(bytes.data() + kPrefixBytes);
  const auto header = nlohmann::json::parse(text, text + header_bytes, nullptr, false);
  if (header.is_discarded()) {
    return fail(ErrorKind::corrupt_data, "the header of the checkpoint is not JSON");
  }
  return from_header(header, body.subspan(kPrefixBytes + header_bytes));
}

base::Result<void> save(storage::WritableStore& store, const std::string& path,
                        const Checkpoint& checkpoint) {
  const std::vector<std::byte> bytes = encode(checkpoint);
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data() + kMagic.size(), sizeof header_bytes);
  if (header_bytes > kMaxHeaderBytes) {
    return fail(ErrorKind::unavailable,
                fmt::format("the states of the ranks' random generators do not fit into a "
                            "checkpoint; train with fewer ranks, or without snapshots: {}: a "
                            "header of {} bytes for {} ranks, at most {}",
                            path, header_bytes, checkpoint.generators.size(), kMaxHeaderBytes));
  }
  const std::string temporary = path + ".tmp";
  if (auto removed = store.remove(temporary);
      !removed && removed.error().kind != ErrorKind::not_found) {
    return fail(removed.error());
  }
  auto write = [&]() -> base::Result<void> {
    DLOBD_TRY(file, store.create(temporary));
    DLOBD_TRY_VOID(appended, file->append(bytes));
    DLOBD_TRY_VOID(synced, file->sync());
    return store.rename(temporary, path);
  };
  auto written = write();
  if (!written) {
    (void)store.remove(temporary);
    return fail(written.error().while_doing("writing the checkpoint " + path));
  }
  return {};
}

base::Result<Checkpoint> load(storage::Store& store, const std::string& path) {
  DLOBD_TRY(file, store.open(path));
  // Whatever other file was named, however large, is refused by its first bytes.
  std::vector<std::byte> bytes(std::min<std::uint64_t>(file->size(), kMagic.size()));
  DLOBD_TRY(begun, file->read_at(0, bytes));
  bytes.resize(begun);
  if (!bytes.empty() && std::memcmp(bytes.data(), kMagic.data(), bytes.size()) == 0) {
    bytes.resize(file->size());
  }
  DLOBD_TRY(read, file->read_at(0, bytes));
  bytes.resize(read);
  auto checkpoint = decode(bytes);
  if (!checkpoint) return fail(checkpoint.error().while_doing("reading " + path));
  return checkpoint;
}

base::Result<void> check_same_run(const Checkpoint& saved, const std::string& wanted,
                                  const std::string& path) {
  const auto differs = base::first_difference(saved.run, wanted);
  if (!differs) return {};
  constexpr std::string_view kDigest = "\ndata_digest=";
  if (wanted.find(kDigest) != std::string::npos && saved.run.find(kDigest) == std::string::npos) {
    return fail(
        ErrorKind::invalid_argument,
        fmt::format("the checkpoint is of an older version, which did not note what data it "
                    "was made with; start without --resume: {}",
                    path));
  }
  return fail(ErrorKind::invalid_argument,
              fmt::format("the checkpoint is of another run; give what it was made with, or start "
                          "without --resume: {}: {} is {} there, {} here",
                          path, differs->key, differs->here, differs->there));
}

}  // namespace dlobd::training
