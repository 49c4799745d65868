#include "metrics/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/binary.h"

namespace dlobd::metrics {
namespace {

// Little-endian words behind a two-byte head: version, then the index of the alternative in Report.
constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kStepBytes = 8 * (kPhases + 10);
constexpr std::size_t kShipRows = 256;
constexpr base::Duration kShipEvery = std::chrono::milliseconds(250);

// Fields of reports: words of eight bytes, but for flags and the like.
struct Writer : base::BinaryWriter {
  void byte(std::uint8_t value) { integer(value); }
  void word(std::uint64_t value) { integer(value); }
  void number(std::int64_t value) { integer(value); }
  void time(base::Duration value) { number(value.count()); }
  void text(std::string_view value) { BinaryWriter::text<std::uint64_t>(value); }
  void count(const TrafficCount& value) {
    word(value.messages);
    word(value.bytes);
  }
};

struct Reader : base::BinaryReader {
  using BinaryReader::BinaryReader;
  std::uint8_t byte() { return integer<std::uint8_t>(); }
  std::uint64_t word() { return integer<std::uint64_t>(); }
  std::int64_t number() { return integer<std::int64_t>(); }
  base::Duration time() { return base::Duration(number()); }
  int rank() {
    const std::int64_t value = number();
    if (value < 0 || value > (1 << 24)) refuse();
    return good() ? static_cast<int>(value) : 0;
  }
  std::string text() { return BinaryReader::text<std::uint64_t>(); }
  TrafficCount count() {
    TrafficCount value;
    value.messages = word();
    value.bytes = word();
    return value;
  }
};

void put(Writer& out, const RankStarted& value) {
  out.number(value.rank);
  out.text(value.role);
  out.number(value.pid);
  out.number(value.training_started_unix_ns);
  // Host names and the like come from the system and need not be UTF-8.
  out.text(
      to_json(value.environment).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

base::Result<Report> get_started(Reader& in) {
  RankStarted value;
  value.rank = in.rank();
  value.role = in.text();
  value.pid = in.number();
  value.training_started_unix_ns = in.number();
  const auto json = nlohmann::json::parse(in.text(), nullptr, false);
  if (json.is_discarded()) {
    return base::fail(base::ErrorKind::corrupt_data, "a report's environment is not JSON");
  }
  DLOBD_TRY(environment, environment_from_json(json));
  value.environment = std::move(environment);
  return Report(std::move(value));
}

void put(Writer& out, const std::vector<StepRow>& rows) {
  out.word(rows.size());
  for (const StepRow& row : rows) {
    out.number(row.rank);
    out.word(row.step);
    out.word(row.epoch);
    out.time(row.totals.start);
    out.time(row.totals.wall);
    for (const base::Duration phase : row.totals.phases) out.time(phase);
    out.time(row.totals.unattributed);
    out.time(row.totals.communication);
    out.word(row.samples);
    out.real(row.loss);
    out.word(row.staleness);
  }
}

std::vector<StepRow> get_steps(Reader& in) {
  const std::uint64_t rows = in.word();
  if (rows > in.left() / kStepBytes) {
    in.refuse();
    return {};
  }
  std::vector<StepRow> value(rows);
  for (StepRow& row : value) {
    row.rank = in.rank();
    row.step = in.word();
    row.epoch = in.word();
    row.totals.start = in.time();
    row.totals.wall = in.time();
    for (base::Duration& phase : row.totals.phases) phase = in.time();
    row.totals.unattributed = in.time();
    row.totals.communication = in.time();
    row.samples = in.word();
    row.loss = in.real();
    row.staleness = in.word();
  }
  return value;
}

void put(Writer& out, const ApartRow& value) {
  out.number(value.rank);
  out.byte(static_cast<std::uint8_t>(value.kind));
  out.time(value.start);
  out.time(value.duration);
}

ApartRow get_apart(Reader& in) {
  ApartRow value;
  value.rank = in.rank();
  const std::uint8_t kind = in.byte();
  if (kind > static_cast<std::uint8_t>(ApartKind::snapshot)) in.refuse();
  value.kind = static_cast<ApartKind>(kind);
  value.start = in.time();
  value.duration = in.time();
  return value;
}

void put(Writer& out, const EvaluationRow& value) {
  out.word(value.step);
  out.word(value.epoch);
  out.number(value.time_ns);
  out.word(value.samples);
  out.real(value.loss);
  out.real(value.accuracy);
}

EvaluationRow get_evaluation(Reader& in) {
  EvaluationRow value;
  value.step = in.word();
  value.epoch = in.word();
  value.time_ns = in.number();
  value.samples = in.word();
  value.loss = in.real();
  value.accuracy = in.real();
  return value;
}

void put(Writer& out, const RankSummary& value) {
  out.number(value.rank);
  out.text(value.role);
  out.text(value.host);
  out.number(value.pid);
  for (const TrafficCount& count :
       {value.data_sent, value.data_received, value.control_sent, value.control_received,
        value.apart_sent, value.apart_received}) {
    out.count(count);
  }
  out.word(value.heartbeats_sent);
  out.word(value.gathers_sent);
  out.word(value.gather_bytes_sent);
  out.byte(value.credits_sent ? 1 : 0);
  if (value.credits_sent) out.word(*value.credits_sent);
  out.byte(value.port ? 1 : 0);
  if (value.port) {
    out.word(value.port->sent);
    out.word(value.port->received);
  }
  out.number(value.clock_error_ns);
  out.word(value.peak_rss_bytes);
  out.word(value.cpu_ns);
  out.word(value.samples_seen);
  out.word(value.samples_padded);
  out.word(value.samples_dropped);
}

RankSummary get_summary(Reader& in) {
  RankSummary value;
  value.rank = in.rank();
  value.role = in.text();
  value.host = in.text();
  value.pid = in.number();
  for (TrafficCount* count : {&value.data_sent, &value.data_received, &value.control_sent,
                              &value.control_received, &value.apart_sent, &value.apart_received}) {
    *count = in.count();
  }
  value.heartbeats_sent = in.word();
  value.gathers_sent = in.word();
  value.gather_bytes_sent = in.word();
  const std::uint8_t has_credits = in.byte();
  if (has_credits > 1) in.refuse();
  if (has_credits == 1) value.credits_sent = in.word();
  const std::uint8_t has_port = in.byte();
  if (has_port > 1) in.refuse();
  if (has_port == 1) {
    value.port.emplace();
    value.port->sent = in.word();
    value.port->received = in.word();
  }
  value.clock_error_ns = in.number();
  value.peak_rss_bytes = in.word();
  value.cpu_ns = in.word();
  value.samples_seen = in.word();
  value.samples_padded = in.word();
  value.samples_dropped = in.word();
  return value;
}

void put(Writer& out, const Warning& value) {
  out.text(value.message);
}

void put(Writer& out, const RankFailed& value) {
  out.byte(static_cast<std::uint8_t>(value.error.kind));
  out.text(value.error.message);
  out.byte(value.error.rank ? 1 : 0);
  if (value.error.rank) out.number(*value.error.rank);
}

RankFailed get_failed(Reader& in) {
  const std::uint8_t kind = in.byte();
  if (kind > static_cast<std::uint8_t>(base::ErrorKind::cancelled)) in.refuse();
  base::Error error(static_cast<base::ErrorKind>(kind), in.text());
  const std::uint8_t has_rank = in.byte();
  if (has_rank > 1) in.refuse();
  if (has_rank == 1) error.rank = in.rank();
  return RankFailed{std::move(error)};
}

base::Result<Report> get(std::uint8_t index, Reader& in) {
  switch (index) {
    case 0: return get_started(in);
    case 1: return Report(get_steps(in));
    case 2: return Report(get_apart(in));
    case 3: return Report(get_evaluation(in));
    case 4: return Report(get_summary(in));
    case 5: return Report(Warning{in.text()});
    case 6: return Report(get_failed(in));
    default:
      return base::fail(base::ErrorKind::corrupt_data,
                        fmt::format("a report of no known sort: {}", index));
  }
}

}  // namespace

Blob encode(const Report& report) {
  Writer out;
  out.byte(kVersion);
  out.byte(static_cast<std::uint8_t>(report.index()));
  std::visit([&](const auto& value) { put(out, value); }, report);
  return out.take();
}

base::Result<Report> decode(std::span<const std::byte> blob) {
  Reader in(blob);
  const std::uint8_t version = in.byte();
  const std::uint8_t index = in.byte();
  if (!in.good() || version != kVersion) {
    return base::fail(base::ErrorKind::corrupt_data,
                      fmt::format("a report of another version or none: {} bytes, version {}",
                                  blob.size(), version));
  }
  auto report = get(index, in);
  if (!in.good() || (report && in.left() > 0)) {
    return base::fail(base::ErrorKind::corrupt_data,
                      fmt::format("a report does not match its own lengths: sort {}, {} bytes",
                                  index, blob.size()));
  }
  return report;
}

void Reporter::add(StepRow row) {
  steps_.push_back(row);
  const base::Duration span = row.totals.start + row.totals.wall - steps_.front().totals.start;
  if (steps_.size() >= kShipRows || span >= kShipEvery) flush();
}

void Reporter::add(const Report& report) {
  flush();
  ship_(encode(report));
}

void Reporter::flush() {
  if (steps_.empty()) return;
  ship_(encode(Report(std::exchange(steps_, {}))));
}

}  // namespace dlobd::metrics
