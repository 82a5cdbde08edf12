#pragma once

#include <vaecf/evaluate/evaluator.hpp>
#include <vaecf/run/all_reduce_benchmark.hpp>
#include <vaecf/run/run.hpp>
#include <vaecf/training/facts.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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

/// The test result of a model to compare with.
struct Baseline {
  std::string name;   ///< prefix of its metrics in the log: "item_knn"
  std::string title;  ///< column of the table: "EASE l2 500"
  evaluate::EvaluationResult result;
};

/// A baseline that validation.baselines: auto leaves out.
struct LeftOut {
  std::string name;    ///< its value in validation.baselines: "ease"
  std::string reason;  ///< "16.3 x 10^12 operations, more than 10^12 for each of 2 threads"
};

struct TestResult {
  evaluate::EvaluationResult model;
  /// The result with user features as the only input (cold start), for the same targets and candidate items;
  /// empty if the model has no features.
  std::optional<evaluate::EvaluationResult> cold_start;
  std::vector<Baseline> baselines;  ///< popularity, which recommends the most popular train items, and others
  std::int64_t epoch = 0;           ///< epoch of the checkpoint; of a solved model the number of the solution
  std::string title = {};           ///< "epoch 12", or the values of a solved model: "EASE l2 500"
  std::vector<LeftOut> left_out = {};  ///< in the last line of the table
};

/// Opens data.file. Throws InputError if the key is not set or the file is not a dataset.
io::DatasetFile open_dataset(const config::TrainingConfig& options);

/// Validates the run before any expensive work: configuration equal on all ranks, dataset, sizes, number of
/// ranks, run folder writable, and if `trains`, the model. Returns choose_item_slices(). Collective. Throws
/// InputError or RunError; most errors are thrown on the affected ranks only, so the caller must exchange the
/// outcome.
int validate_run(const Run& run, bool trains = true);

/// Returns the number of item slices that distributed.item_slices selects; with `auto`, logs why.
/// Throws InputError if the ranks, the items or the model cannot be divided.
int choose_item_slices(const config::TrainingConfig& options, const models::InputDims& inputs,
                       const RunContext& context);
/// Divides the ranks into model-parallel groups. If `item_slices` differs between ranks, the largest counts.
/// Collective.
std::shared_ptr<const comm::RankGrid> divide_ranks(comm::Communicator& ranks, int item_slices);

/// Throws InputError if the dataset has no test user with a held-out item.
void require_test_users(const io::DatasetFile& dataset);

/// Prepares the run folder for a run that does not continue the one in it: if the folder contains a
/// checkpoint or an event `epoch` or `solve`, moves its contents except the lock file to RUN.N, with the
/// smallest free N from 1, and logs what was moved. Then run.resume_from and start_from are the new paths
/// of these files; resume_from is empty if the search of a solved model does not continue. Must be called
/// before train(), by the holder of the lock. Collective; only rank 0 accesses the folder. Throws InputError
/// on all ranks, with all files at their places, if the contents cannot be moved, or if data.file is one of
/// them.
void move_previous_run(Run& run);

/// Trains, validates, and writes checkpoints, metrics.jsonl and config.yaml. A resumed run removes log lines
/// newer than the checkpoint and moves newer checkpoints to checkpoints/aside. Collective. Throws InputError
/// for invalid input. Throws RunError if the loss is not finite, in which case existing checkpoints are kept,
/// or if the last or the best checkpoint could not be written.
TrainResult train(const Run& run);

/// Evaluates `checkpoint` and the baselines on /test, and appends the result to metrics.jsonl. If the model
/// has user features, it is also evaluated with these alone. Writes the metrics of each user to the file
/// `per_user`, unless it is empty. Collective. Throws InputError if the dataset has no test users or the
/// checkpoint does not match.
TestResult test(const Run& run, const std::string& checkpoint, const std::string& per_user = "");

/// Appends the event "done" to metrics.jsonl, which proves that a command without an event "start" has
/// finished. Collective. Throws RunError if it cannot be written.
void log_done(const Run& run);

/// The result of a benchmark; times and memory are those of the slowest or largest rank. Phase times are
/// medians over additional steps of the rank with the longest compute time, by the device clock on a GPU.
/// Those steps do not use captured graphs; the other steps do if the device supports it.
struct BenchmarkResult {
  std::string machine;             ///< processor, cores, memory, and the description of the device
  std::int64_t steps = 0;          ///< number of timed steps
  std::int64_t warm_up_steps = 0;  ///< number of steps before the measurement
  double users_per_step = 0.0;     ///< mean; the last step of an epoch may have fewer users
  double users_per_second = 0.0;
  double seconds_per_epoch = 0.0;
  double milliseconds_per_step = 0.0;  ///< median
  /// input, forward, loss, backward, all-reduce, optimizer; with a parameter server the optimizer time is
  /// also part of the workers' all-reduce time
  std::map<std::string, double> phase_milliseconds;
  double gflops = 0.0;       ///< GFLOP/s of the dense layers during training
  double gemm_gflops = 0.0;  ///< peak GEMM GFLOP/s of the machine, measured in the same run
  /// Memory traffic in GB/s that the updates of all ranks need at least for weights, moments and gradients.
  double memory_gbytes = 0.0;
  double memory_rate_gbytes = 0.0;  ///< peak memory bandwidth in GB/s, measured in the same run
  /// All-reduce times by message size, ascending, measured in the same run; empty for one rank.
  std::vector<AllReduceTiming> all_reduce;
  training::CommVolume comm_volume;  ///< communication volume of a step
  double peak_memory_mib = 0.0;
  double peak_device_mib = 0.0;              ///< peak GPU memory; 0 on the CPU
  double data_memory_mib = 0.0;              ///< memory of a rank's training users
  double evaluation_users_per_second = 0.0;  ///< held-out users, ranked among all items
  double evaluation_milliseconds = 0.0;      ///< duration for all of them
  std::int64_t evaluation_users = 0;

  double gemm_share() const { return gemm_gflops > 0.0 ? gflops / gemm_gflops : 0.0; }
  double memory_share() const { return memory_rate_gbytes > 0.0 ? memory_gbytes / memory_rate_gbytes : 0.0; }
};

/// Measures training for train.epochs epochs or benchmark.seconds, whichever is shorter, but at least 20
/// steps, after warm-up steps. Appends the result to metrics.jsonl. Collective.
BenchmarkResult benchmark(const Run& run);
/// Formats a result for the terminal.
std::string to_table(const BenchmarkResult& result);
std::string to_table(const TestResult& result);

/// Returns the number of warm-up steps: an epoch, or about `seconds` of steps of `step_seconds` each if that
/// is less, but at least 12.
std::int64_t warm_up_steps(double seconds, double step_seconds, std::int64_t steps_per_epoch);

}  // namespace vaecf::run
