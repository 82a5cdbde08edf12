#pragma once

#include <vaecf/training/options.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace vaecf::config {

struct ValidationOptions {
  std::int64_t every = 1;  ///< epochs; 0 = never
  std::vector<std::string> metrics = {"ndcg@100", "recall@20", "recall@50"};
  std::string select = "ndcg@100";  ///< metric that selects the best epoch, or "last" for the last epoch
  /// Names of models to compare with in every test, or "auto".
  std::vector<std::string> baselines = {"auto"};
};

/// The interval between checkpoints to resume from. At most one field is not 0; if all are, none are written.
struct CheckpointEvery {
  /// After an epoch, if nothing is being written and writing took less than a tenth of the time so far.
  static constexpr std::int64_t automatic = -1;

  std::int64_t epochs = automatic;
  std::int64_t steps = 0;
  double minutes = 0.0;
};

struct RunOptions {
  std::string directory = "runs";
  CheckpointEvery checkpoint_every;
  std::int64_t keep = 2;        ///< number of newest checkpoints to keep, in addition to best.h5
  double retry_seconds = 60.0;  ///< for which the last checkpoint is attempted again if it cannot be written
};

/// The configuration of --benchmark.
struct BenchmarkOptions {
  double seconds = 60.0;          ///< maximum duration of the timed steps, unless train.epochs take less
  double warm_up_seconds = 10.0;  ///< maximum duration of the warm-up, unless an epoch takes less
  bool evaluate = true;           ///< also measure the evaluation of held-out users
};

/// The complete configuration of a run: the option structs of all modules.
struct TrainingConfig : training::Options {
  std::string name = "run";
  ValidationOptions validation;
  RunOptions run;
  BenchmarkOptions benchmark;

  std::string run_folder() const { return run.directory + "/" + name; }
};

}  // namespace vaecf::config
