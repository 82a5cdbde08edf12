#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/base/run_control.hpp>
#include <vaecf/comm/all_reduce_probe.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/data/shards.hpp>
#include <vaecf/device/options.hpp>
#include <vaecf/model/model_options.hpp>
#include <vaecf/model/network_shape.hpp>
#include <vaecf/train/engine.hpp>
#include <vaecf/train/train_options.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace vaecf::train {

/// All that a run may choose, the rooms' own option structs side by side.
struct SessionOptions {
  std::string name = "run";
  data::DataOptions data;
  model::ModelOptions model;
  TrainOptions train;
  train::OptimizerOptions optimizer;
  ValidationOptions validation;
  RunOptions run;
  BenchmarkOptions benchmark;
  comm::DistributedOptions distributed;
  std::string configuration_text;  ///< every key as resolved, YAML: goes to config.yaml and checkpoints
  std::string version;
  std::string commit;       ///< of the program; empty: unknown
  std::string resume_from;  ///< the checkpoint to go on from; empty: train from the start

  std::string run_folder() const { return run.directory + "/" + name; }
  std::string checkpoint_folder() const { return run_folder() + "/checkpoints"; }
  std::string best_checkpoint() const { return checkpoint_folder() + "/best.h5"; }
};

/// What the model takes of the dataset: its items, and its users' features unless model.features is off.
model::Inputs model_inputs(const SessionOptions& options, const io::DatasetFile& dataset);

/// What a command lends to the work. All outlive it.
struct Services {
  comm::Communicator& communicator;
  Engine& engine;
  Log& log;
  Progress& progress;
  const StopFlag* stop = nullptr;  ///< asks for an early end with a checkpoint; may be null
};

/// Means over users, with their standard errors.
struct MetricValue {
  double mean = 0.0;
  std::optional<double> standard_error = 0.0;  ///< of the mean over users; empty where it is none: coverage
};
using Metrics = std::map<std::string, MetricValue>;

struct EvaluationResult {
  std::int64_t users = 0;                 ///< users that have a target
  std::int64_t users_without_target = 0;  ///< left out
  Metrics metrics;                        ///< "ndcg@100" ...
};

struct TrainResult {
  std::int64_t epochs = 0;
  std::int64_t steps = 0;
  std::int64_t best_epoch = 0;
  double best_metric = 0.0;
  double seconds = 0.0;
  bool stopped = false;  ///< on request, with a checkpoint to go on from
};

struct TestResult {
  EvaluationResult model;
  /// Where the model knows features: by them alone, as if nothing else were known of the users, who are
  /// asked for the same targets among the same items.
  std::optional<EvaluationResult> cold;
  EvaluationResult popularity;  ///< every user gets the most popular train items: what a model must beat
  std::int64_t epoch = 0;       ///< the checkpoint's
};

/// Checks everything that can be checked before heavy work (dataset, sizes, ranks against virtual shards,
/// run folder writable; if it trains, the model and a memory plan). InputError; called on every rank, and the
/// caller exchanges the outcome.
void check(const SessionOptions& options, const Services& services, bool trains = true);

/// InputError where `test` would have nobody to test on.
void require_test_users(const io::DatasetFile& dataset);

/// A checkpoint to go on from, and the configuration that it was written under.
struct ResumePoint {
  std::string path;
  std::string configuration;
};

/// `wanted`: a file, or "auto" for the newest whole checkpoint of the run folder, if there is any; it warns
/// of those that it passes over, and why. All ranks call it, and all get the same. InputError on all ranks
/// where the file is not whole, or is of another dataset.
std::optional<ResumePoint> find_resume_point(const SessionOptions& options, const Services& services,
                                             const std::string& wanted);

/// Trains, validates, writes checkpoints, metrics.jsonl and config.yaml. A new run moves what an older one
/// left under its name aside (checkpoints.old, metrics.jsonl.old); one that goes on from a checkpoint cuts
/// from them what came later. All ranks call it. RunError, among others, where the loss is no number (the
/// checkpoints stay as they were), or where at the end the last checkpoint or the best could not be written.
TrainResult train(const SessionOptions& options, const Services& services);

/// Tests `checkpoint` on /test, with the popularity baseline beside it, and, where the model knows features
/// of users, how far these alone carry. All ranks call it.
TestResult test(const SessionOptions& options, const Services& services, const std::string& checkpoint);

/// What a benchmark found, the slowest rank's. Phases, all of the rank that computes longest, are medians
/// over steps of their own, by the device's clock where there is a device; those steps run kernel by kernel,
/// the others as a recording where they can.
struct BenchmarkResult {
  std::string machine;             ///< processor, cores, memory, and what the backend says of itself
  std::int64_t steps = 0;          ///< timed
  std::int64_t warm_up_steps = 0;  ///< left out: an epoch where that is short
  double users_per_step = 0.0;     ///< on average: an epoch's last step takes what is left
  double users_per_second = 0.0;
  double seconds_per_epoch = 0.0;
  double milliseconds_per_step = 0.0;
  std::map<std::string, double>
      phase_milliseconds;    ///< input, forward, loss, backward, all-reduce, optimiser; the optimiser of a
                             ///< parameter server lies within what its workers take for the all-reduce
  double gflops = 0.0;       ///< arithmetic of the step's dense products over time
  double gemm_gflops = 0.0;  ///< the machine's own rate, measured in the same run
  /// Weights, moments and gradients to and from memory by the updates of all ranks, at least, over time.
  double memory_gbytes = 0.0;       ///< GB/s
  double memory_rate_gbytes = 0.0;  ///< the machine's own rate, measured in the same run
  /// Of gradients' way between ranks, measured in the same run, smallest first; empty for one rank.
  std::vector<comm::AllReduceTime> all_reduce;
  WireBytes wire;  ///< of a step
  double peak_memory_mib = 0.0;
  double peak_device_mib = 0.0;  ///< on a GPU
  double data_memory_mib = 0.0;
  double evaluation_users_per_second = 0.0;  ///< validation users, ranked among all items
  double evaluation_milliseconds = 0.0;      ///< of all of them
  std::int64_t evaluation_users = 0;

  double gemm_share() const { return gemm_gflops > 0.0 ? gflops / gemm_gflops : 0.0; }
  double memory_share() const { return memory_rate_gbytes > 0.0 ? memory_gbytes / memory_rate_gbytes : 0.0; }
};

/// Trains `epochs` epochs, or for `benchmark.seconds` where that is less, after warm-up steps that it leaves
/// out.
BenchmarkResult benchmark(const SessionOptions& options, const Services& services);
std::string to_table(const BenchmarkResult& result);
std::string to_table(const TestResult& result);

/// How many steps of `step_seconds` each to take before measuring: an epoch's, or about `seconds` of them
/// where that is less, and 12 at least.
std::int64_t warm_up_steps(double seconds, double step_seconds, std::int64_t steps_per_epoch);

}  // namespace vaecf::train
