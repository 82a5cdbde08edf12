#pragma once

#include <vaecf/base/activity.hpp>
#include <vaecf/comm/all_reduce_benchmark.hpp>
#include <vaecf/train/run.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vaecf::train {

/// The communication volume of one step in bytes of payload. Collectives are counted as on a ring; the
/// library may use another algorithm.
struct CommVolume {
  double total = 0.0;       ///< bytes sent by all ranks together
  double worker_out = 0.0;  ///< bytes sent by one worker
  double worker_in = 0.0;   ///< bytes received by one worker
  double server_out = 0.0;  ///< bytes sent by one server
  double server_in = 0.0;   ///< bytes received by one server
  double exchanged = 0.0;   ///< part of worker_out: activations exchanged in a group of item slices
};

/// The staleness of gradients with asynchronous updates of a parameter server.
struct Staleness {
  std::int64_t updates = 0;  ///< number of gradients applied, each of one worker
  /// Maximum number of steps by which a worker was ahead of the slowest one when a server sent it weights.
  std::int64_t max_lead = 0;
  std::int64_t max_age = 0;  ///< maximum number of updates between a worker's weights and its gradient
  double mean_age = 0.0;     ///< mean number of updates between a worker's weights and its gradient
};

/// Properties of one rank's part of a training, fixed when it starts: memory and bytes moved per step.
struct TrainingFacts {
  bool is_worker = true;        ///< this rank is a worker, which computes gradients; otherwise a server
  bool overlaps = false;        ///< gradients are reduced during the backward pass
  std::int64_t data_bytes = 0;  ///< memory of this rank's training users
  /// Location of these users in memory and the reason for it, as one line for the log; may be empty.
  std::string data_description = {};
  std::int64_t flat_elements = 0;  ///< number of elements of a flat buffer, including padding
  /// Minimum memory traffic of one update on this rank in bytes: weights, moments and gradients are each read
  /// and written once, 16-bit copies of weights are written once. Gradients that are not stored, as in fused
  /// updates, do not count.
  double update_bytes = 0.0;
  CommVolume comm_volume;    ///< communication volume of a step
  Range prior_tensors = {};  ///< indices of the tensors in StateTensor::prior; empty if there is none
};

/// A metric's mean over users and the standard error of the mean.
struct MetricValue {
  double mean = 0.0;
  std::optional<double> standard_error = 0.0;  ///< empty for coverage and gini, which are no means
};
/// Metrics by name, such as "ndcg@100".
using Metrics = std::map<std::string, MetricValue>;

struct EvaluationResult {
  std::int64_t users = 0;                 ///< number of users with at least one target
  std::int64_t users_without_target = 0;  ///< number of excluded users
  Metrics metrics;
  std::int64_t users_without_history = 0;  ///< number of `users` without fold-in items
  /// The metrics that are means over users, for users with and without fold-in items; empty unless there are
  /// both.
  Metrics with_history = {};
  Metrics without_history = {};
  /// Values of these metrics for each of this rank's users, in the order of the dataset; 0 without a target.
  std::map<std::string, std::vector<double>> of_users = {};
};

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
  EvaluationResult result;
};

/// A baseline that validation.baselines: auto leaves out.
struct LeftOut {
  std::string name;    ///< its value in validation.baselines: "ease"
  std::string reason;  ///< "16.3 x 10^12 operations, more than 10^12 for each of 2 threads"
};

struct TestResult {
  EvaluationResult model;
  /// The result with user features as the only input (cold start), for the same targets and candidate items;
  /// empty if the model has no features.
  std::optional<EvaluationResult> cold_start;
  std::vector<Baseline> baselines;  ///< popularity, which recommends the most popular train items, and others
  std::int64_t epoch = 0;           ///< epoch of the checkpoint; of a solved model the number of the solution
  std::string title = {};           ///< "epoch 12", or the values of a solved model: "EASE l2 500"
  std::vector<LeftOut> left_out = {};  ///< in the last line of the table
};

/// Opens data.file. Throws InputError if the key is not set or the file is not a dataset.
io::DatasetFile open_dataset(const TrainingConfig& options);

/// Validates the run before any expensive work: configuration equal on all ranks, dataset, sizes, number of
/// ranks, run folder writable, and if `trains`, the model. Returns choose_item_slices(). Collective. Throws
/// InputError or RunError; most errors are thrown on the affected ranks only, so the caller must exchange the
/// outcome.
int validate_run(const Run& run, bool trains = true);

/// Returns the number of slices of the items that distributed.item_slices selects; with `auto`, logs why.
/// Throws InputError if the ranks, the items or the model cannot be divided.
int choose_item_slices(const TrainingConfig& options, const model::InputDims& inputs,
                       const RunContext& context);
/// Divides the ranks into groups that share the items. If `slices` differs between ranks, the largest counts.
/// Collective.
std::shared_ptr<const comm::RankGrid> divide_ranks(comm::Communicator& ranks, int slices);

/// Throws InputError if the dataset has no test user with a held-out item.
void require_test_users(const io::DatasetFile& dataset);

/// A checkpoint to resume from, and the configuration of the run that wrote it.
struct ResumePoint {
  std::string path;
  std::string configuration;
};

/// Returns the checkpoint to resume from, equal on all ranks. `requested` is a path, or "auto" for the newest
/// valid checkpoint of the run folder; unreadable ones are skipped with a warning. Returns nullopt if "auto"
/// finds none. Collective. Throws InputError on all ranks if the checkpoint is invalid, has another format
/// version or was trained on another dataset.
std::optional<ResumePoint> find_resume_point(const Run& run, const std::string& requested);

/// Checks the checkpoint run.start_from. Collective. Throws InputError on all ranks if it is not valid, or
/// its weights do not fit the model of the run.
void validate_start(const Run& run);

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

/// The error by which a rank ends a run.
struct RunFailure {
  std::string id;      ///< RunState::id
  std::string reason;  ///< the message that the rank prints
  int rank = 0;        ///< the rank that ends the run; another one may be the cause, which the reason names
  std::string host;
  Activity::Report at;  ///< activity of that rank
};

/// Appends the event "failed" to metrics.jsonl in `run_folder`. Does nothing if the file does not exist or
/// cannot be written. Blocks for at most 5 seconds, since the file system may be the cause of the failure.
/// Any thread may call it.
void log_failure(const std::string& run_folder, const RunFailure& failure);

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
  std::vector<comm::AllReduceTiming> all_reduce;
  CommVolume comm_volume;  ///< communication volume of a step
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

}  // namespace vaecf::train
