#pragma once

#include <vaecf/run/run.hpp>

#include <cstdint>

namespace vaecf::run {

struct TrainResult {
  std::int64_t epochs = 0;
  std::int64_t steps = 0;
  std::int64_t best_epoch = 0;
  double best_metric = 0.0;
  double seconds = 0.0;
  bool stopped = false;   ///< stopped on request, with a checkpoint to resume from
  bool complete = false;  ///< the run was complete before, so nothing was done and no event was written
};

/// Trains, validates, and writes checkpoints, metrics.jsonl and config.yaml. A resumed run removes log lines
/// newer than the checkpoint and moves newer checkpoints to checkpoints/aside. Collective. Throws InputError
/// for invalid input. Throws RunError if the loss is not finite, in which case existing checkpoints are kept,
/// or if the last or the best checkpoint could not be written.
TrainResult train(const Run& run);

}  // namespace vaecf::run
