#include <fmt/format.h>
#include <sys/random.h>

#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "child_environment.h"
#include "cluster/local_launcher.h"
#include "exit_status.h"
#include "run_view.h"
#include "train_modes.h"

namespace dlobd::app {

namespace {

// The words of this process's own command line.
std::vector<std::string> own_command() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  words.at(0) = "/proc/self/exe";
  return words;
}

std::string random_token() {
  unsigned char bytes[16];
  CHECK(getrandom(bytes, sizeof bytes, 0) == sizeof bytes, "the kernel has no random bytes");
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

// The last word of a rank that died before it could report: the line that complain() wrote.
std::string last_complaint(const std::string& output) {
  constexpr std::string_view kMark = "dlobd train: ";
  const auto at = output.rfind(kMark);
  if (at == std::string::npos) return {};
  const auto begin = at + kMark.size();
  return output.substr(begin, output.find('\n', begin) - begin);
}

// Why the job failed, as the ranks that survived say it; what each said is shown, once. Of what
// kind it was knows the rank that is the culprit, if it could tell.
base::Error cause(const cluster::LaunchOutcome& outcome,
                  const std::map<int, base::Error>& failures) {
  std::set<std::string> said;
  for (std::size_t rank = 0; rank < outcome.ranks.size(); ++rank) {
    const auto& exit = outcome.ranks[rank];
    const auto reported = failures.find(static_cast<int>(rank));
    if (reported != failures.end()) {
      said.insert(reported->second.message);
    } else if (exit.signal == 0 && exit.exit_code != 0) {
      said.insert(last_complaint(exit.output));
    }
  }
  said.erase("");
  const auto& first = outcome.ranks[static_cast<std::size_t>(outcome.first_bad)];
  base::Error whole(base::ErrorKind::peer_lost, fmt::format("{}", fmt::join(said, "; ")));
  if (said.empty()) {
    whole.message =
        fmt::format("a rank ended badly: rank {}: {}", outcome.first_bad, first.describe());
    if (!first.output.empty()) whole.message += "; its last output: " + first.output;
  }
  for (const auto& [rank, error] : failures) {
    const bool own = error.rank.value_or(rank) == rank;
    if (own || !whole.rank) whole.rank = error.rank;
    if (own) whole.kind = error.kind;
  }
  return whole;
}

base::Result<training::End> end_of(const cluster::LaunchOutcome& outcome,
                                   const std::map<int, base::Error>& failures) {
  if (outcome.good()) return training::End::finished;
  const auto all_ended_with = [&](int code) {
    for (const auto& rank : outcome.ranks) {
      if (rank.exit_code != code) return false;
    }
    return true;
  };
  if (all_ended_with(kInterrupted)) return training::End::interrupted;
  // A signal that came before the ranks had met, or a second one, ends each where it is.
  if (outcome.interrupted_by != 0) {
    const auto& first = outcome.ranks[static_cast<std::size_t>(outcome.first_bad)];
    if (first.signal != 0 || first.exit_code == kInterrupted) return training::End::interrupted;
  }
  if (all_ended_with(kTargetMissed)) return training::End::target_missed;
  return base::fail(cause(outcome, failures));
}

}  // namespace

int train_local(const TrainOptions& options, const Resolved& resolved) {
  const auto& config = resolved.config;
  RunView view(config, resolved.dataset.count(records::Part::train), metrics::RunSource::measured,
               options.json);
  const std::string token = random_token();

  cluster::LaunchOptions launch;
  launch.ranks = config.layout().world_size();
  launch.verbose = options.verbose;
  launch.grace = 2 * config.peer_timeout + std::chrono::seconds(5);
  launch.command = [&config](int rank, const std::string& rendezvous) {
    auto words = own_command();
    for (const std::string& word :
         {std::string("--launched"), std::string("--rank"), std::to_string(rank),
          std::string("--world-size"), std::to_string(config.layout().world_size()),
          std::string("--rendezvous"), rendezvous}) {
      words.push_back(word);
    }
    return words;
  };
  launch.environment = [&token](int) { return child_environment({"DLOBD_JOB_TOKEN=" + token}); };
  cluster::LaunchCallbacks callbacks;
  callbacks.on_report = [&view](int rank, std::vector<std::byte> blob) {
    view.add(rank, std::move(blob));
  };
  const auto outcome = cluster::launch_local(launch, callbacks);
  if (!outcome) {
    view.write(base::fail(outcome.error()));
    return view.show();
  }
  for (std::size_t rank = 0; rank < outcome->ranks.size(); ++rank) {
    const auto& exit = outcome->ranks[rank];
    // Whom the user interrupts before there is anything to end in order, the signal ends.
    const bool wished =
        outcome->interrupted_by != 0 && (exit.put_down || exit.signal == outcome->interrupted_by);
    if (!exit.good() && exit.signal != 0 && !wished) {
      view.warn(fmt::format("rank {} was {}{}", rank, exit.describe(),
                            exit.put_down ? ", by the launcher" : ""));
    }
  }
  view.write(end_of(*outcome, view.failures()));
  return view.show();
}

}  // namespace dlobd::app
