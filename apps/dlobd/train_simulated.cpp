#include <cstdlib>
#include <utility>

#include "exit_status.h"
#include "run_view.h"
#include "train_modes.h"
#include "training/simulated_job.h"

namespace dlobd::app {

int train_simulated(const TrainOptions& options, const Resolved& resolved) {
  const char* kernel = std::getenv("OPENBLAS_CORETYPE");
  auto replicas =
      training::Replicas::load(resolved.config, resolved.model, kernel != nullptr ? kernel : "");
  if (!replicas) {
    complain(replicas.error());
    return kRefused;
  }
  RunView view(resolved.config, resolved.dataset.count(records::Part::train),
               metrics::RunSource::simulated, options.json);
  if (resolved.config.processor.kind != compute::Processor::Kind::profile) {
    view.warn("simulated: times are those of the network alone; computation takes no virtual time");
  }
  auto job = training::SimulatedJob::make(
      resolved.config, resolved.dataset, *replicas,
      [&view](int rank, metrics::Blob blob) { view.add(rank, std::move(blob)); });
  if (!job) {
    complain(job.error());
    return kRefused;
  }
  view.write(training::job_end((*job)->run()));
  return view.show();
}

}  // namespace dlobd::app
