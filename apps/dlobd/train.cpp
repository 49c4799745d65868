#include "train.h"

#include <csignal>
#include <memory>

#include "exit_status.h"
#include "metrics/run_folder.h"
#include "run_view.h"
#include "storage/local.h"
#include "train_modes.h"
#include "train_options.h"
#include "train_placement.h"

namespace dlobd::app {

namespace {

// What a run will write must be writable before it starts; nothing is made yet.
base::Result<void> check_folders(const training::Config& config) {
  DLOBD_TRY_VOID(writable, metrics::check_writable(config.out));
  if (auto usable = metrics::check_writable(config.checkpoints()); !usable) {
    return base::fail(usable.error().while_doing("checking the folder for checkpoints"));
  }
  return {};
}

int train(TrainOptions& options, const Environment& environment) {
  if (auto placed = place_by_environment(options, environment); !placed) {
    complain(placed.error());
    return kRefused;
  }
  storage::LocalStore store;
  auto resolved = resolve(options, store);
  if (!resolved) {
    complain(resolved.error());
    return kRefused;
  }
  if (!options.launched) {
    if (auto writable = check_folders(resolved->config); !writable) {
      complain(writable.error());
      return kRefused;
    }
  }
  if (resolved->config.network == training::NetworkKind::simulated) {
    return train_simulated(options, *resolved);
  }
  return options.rank ? train_rank(options, *resolved) : train_local(options, *resolved);
}

}  // namespace

void add_train(CLI::App& app, int& status, const Environment& environment) {
  auto options = std::make_shared<TrainOptions>();
  auto* verb =
      app.add_subcommand("train", "Train a network through a stack's design, and record the run");
  add_train_options(*verb, *options);
  verb->callback([options, &status, &environment] { status = train(*options, environment); });
}

}  // namespace dlobd::app
