#include "train.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "metrics/run_folder.h"
#include "run_view.h"
#include "storage/local.h"
#include "train_modes.h"
#include "train_options.h"

namespace dlobd::app {

namespace {

// What a run will write must be writable before it starts.
base::Result<void> prepare_folders(const training::Config& config) {
  DLOBD_TRY_VOID(writable, metrics::check_writable(config.out));
  const std::string checkpoints =
      config.checkpoint_folder.empty() ? config.out + "/checkpoints" : config.checkpoint_folder;
  std::error_code error;
  std::filesystem::create_directories(checkpoints, error);
  if (error) {
    return base::fail(
        base::ErrorKind::io_error,
        fmt::format("cannot make the checkpoint folder: {}: {}", checkpoints, error.message()));
  }
  return {};
}

int train(const TrainOptions& options) {
  storage::LocalStore store;
  auto resolved = resolve(options, store);
  if (!resolved) {
    complain(resolved.error());
    return kRefused;
  }
  if (!options.launched) {
    if (auto prepared = prepare_folders(resolved->config); !prepared) {
      complain(prepared.error());
      return kRefused;
    }
  }
  if (resolved->config.network == training::NetworkKind::simulated) {
    return train_simulated(options, *resolved);
  }
  return options.rank ? train_rank(options, *resolved) : train_local(options, *resolved);
}

}  // namespace

void add_train(CLI::App& app, int& status) {
  auto options = std::make_shared<TrainOptions>();
  auto* verb =
      app.add_subcommand("train", "Train a network through a stack's design, and record the run");
  add_train_options(*verb, *options);
  verb->callback([options, &status] { status = train(*options); });
}

}  // namespace dlobd::app
