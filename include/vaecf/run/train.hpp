#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/base/timeline.hpp>
#include <vaecf/base/views.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/device/device.hpp>
#include <vaecf/evaluate/evaluator.hpp>
#include <vaecf/io/atomic_file.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/json.hpp>
#include <vaecf/models/model.hpp>
#include <vaecf/run/run.hpp>
#include <vaecf/training/trainer.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vaecf::run {

/// The duration of one all-reduce of a given size.
struct AllReduceTiming {
  std::int64_t bytes = 0;  ///< message size
  /// Duration per all-reduce on the slowest rank, in the fastest of several rounds.
  double seconds = 0.0;

  /// Returns the algorithm bandwidth, bytes / seconds, in GB/s ("algbw" of nccl-tests).
  double algorithm_bandwidth() const {
    return seconds > 0.0 ? 1e-9 * static_cast<double>(bytes) / seconds : 0.0;
  }
  /// Returns the bus bandwidth in GB/s ("busbw" of nccl-tests): each link of a ring of R ranks transfers
  /// 2 (R - 1) / R of the bytes in each direction.
  double bus_bandwidth(int ranks) const { return algorithm_bandwidth() * 2.0 * (ranks - 1) / ranks; }
};

/// Returns the default message sizes in bytes: 4 B to 64 MiB, by factors of 8.
std::vector<std::int64_t> all_reduce_benchmark_sizes();

/// Runs `count` all-reduces of `elements` fp32 elements each, one after the other, and waits for them.
using RunAllReduces = std::function<void(std::int64_t elements, int count)>;

/// Measures `sums` for each message size and returns the same times on all ranks. `sizes` are in bytes,
/// ascending, and rounded up to whole fp32 elements. Sizes that would exceed `budget` seconds in total,
/// extrapolated from the smaller ones, are skipped. Collective.
std::vector<AllReduceTiming> measure_all_reduce(comm::Communicator& communicator,
                                                std::span<const std::int64_t> sizes, double budget,
                                                const RunAllReduces& sums);

/// Measures the blocking all-reduce on host memory. Returns an empty vector on a single rank. Collective.
std::vector<AllReduceTiming> measure_all_reduce(comm::Communicator& communicator,
                                                std::span<const std::int64_t> sizes, double budget = 1.0);

/// Measures the non-blocking all-reduce on the memory of `device`, which is the path of the gradients.
/// Returns an empty vector on a single rank. Collective.
std::vector<AllReduceTiming> measure_all_reduce(comm::Communicator& communicator, device::Device& device,
                                                std::span<const std::int64_t> sizes, double budget = 1.0);

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
  std::string split = "test";
};

/// The metrics of lists from any program, and what was counted.
struct ListTestResult {
  TestResult test;
  std::int64_t users_without_list = 0;  ///< among the users that count
  std::int64_t seen_places = 0;         ///< removed places with items of the user's fold-in
  /// Number of lists that are shorter than a cut-off of the metrics and than the number of items that the
  /// user has not seen, by cut-off.
  std::map<std::int32_t, std::int64_t> short_lists = {};
};

/// The test of one of several runs that differ by their seed only.
struct SeedTest {
  std::uint64_t seed = 0;
  std::int64_t users = 0;
  evaluate::Metrics metrics;
};

/// Opens data.file. Throws InputError if the key is not set or the file is not a dataset.
io::DatasetFile open_dataset(const config::TrainingConfig& options);

/// Throws InputError if `ranks` ranks are more than the configuration permits, as far as it determines that
/// without the dataset.
void validate_ranks(const config::TrainingConfig& options, int ranks);

/// Validates the run before any expensive work: configuration equal on all ranks, dataset, sizes, number of
/// ranks, if `writes`, run folder writable, and if `trains`, the model. Returns choose_item_slices().
/// Collective. Throws InputError or RunError; most errors are thrown on the affected ranks only, so the
/// caller must exchange the outcome.
int validate_run(const Run& run, bool trains = true, bool writes = true);

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

/// Evaluates lists of the users of `split`, after removing the items that a user has seen, with the metrics
/// of the run's options. `title`: what the lists are called in the table. Writes the metrics of each user as
/// test() does. The run must have one rank. Throws InputError if a metric does not exist.
ListTestResult test_lists(const Run& run, const std::string& split, evaluate::Lists lists,
                          const std::string& title, const std::string& per_user = "");

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
/// Formats at least two tests: a row per metric, with the mean, the standard deviation with the divisor
/// n - 1, and the value of each seed.
std::string to_table(const std::vector<SeedTest>& tests);

/// Returns about how many bytes the checkpoints of a run take at most at a time.
std::int64_t checkpoint_bytes(const config::TrainingConfig& options, const io::DatasetFile& dataset);
/// Returns a table of what training will take: memory, communication per step, checkpoints, and from 20 steps
/// on these ranks, which take at most about 10 seconds, the time of an epoch and of the run. The time of a
/// model that is solved is not predicted. Writes no file. Collective.
std::string plan(const Run& run);

/// Returns the number of warm-up steps: an epoch, or about `seconds` of steps of `step_seconds` each if that
/// is less, but at least 12.
std::int64_t warm_up_steps(double seconds, double step_seconds, std::int64_t steps_per_epoch);

/// The offset of this rank's clock from rank 0's, in nanoseconds.
struct ClockOffset {
  std::int64_t at = 0;      ///< time of the measurement by this rank's clock
  std::int64_t offset = 0;  ///< this rank's clock minus rank 0's clock
  std::int64_t error = 0;   ///< bound on the error of `offset`
};

/// Sorts events by track and begin; an event precedes those that it contains. Shortens events that partly
/// overlap others because of clock resolution, so that two events of a track are either nested or disjoint.
void make_nested(std::vector<TimelineEvent>& events);

/// Writes the timelines of all ranks to one file in Chrome trace format, for Perfetto and chrome://tracing.
/// If write() is not called, no file remains.
class RunTimeline {
 public:
  /// Creates the file under a temporary name on rank 0. Throws RunError if that fails. Not collective.
  RunTimeline(const comm::Communicator& communicator, const std::string& path,
              std::shared_ptr<Timeline> timeline = std::make_shared<Timeline>());

  /// Starts recording on this rank. Collective.
  void start(comm::Communicator& communicator);
  /// Gathers the events of all ranks, writes the file and renames it to `path`. If the file cannot be
  /// written, a warning is logged and the run continues. Collective.
  void write(comm::Communicator& communicator, Log& log);

 private:
  std::string path_;
  std::shared_ptr<Timeline> timeline_;
  std::unique_ptr<io::AtomicOutputFile> file_;  // on rank 0
  ClockOffset start_;
};

/// Appends an event to the log of a completed run on rank 0. Collective.
void append_event(const Run& run, const io::Event& event);
/// Returns the event "start", which describes the run and its machines. Collective.
io::Event start_event(const Run& run, std::int64_t users, models::InputDims inputs, std::int64_t parameters);
/// Adds each metric and its standard error under its name ("ndcg@100", "ndcg@100_se"), those of new items as
/// "new_items_ndcg@100" and, without a prefix, the numbers of new items and of their users, and the
/// expectations for a random order ("new_items_ndcg@100_random").
void add_metrics(io::Event& event, const evaluate::EvaluationResult& result, const std::string& prefix = "");
/// Adds the numbers of users and the metrics.
void add_evaluation(io::Event& event, const evaluate::EvaluationResult& result);
/// Adds the communication volume of a step: "wire_bytes" and "wire_bytes_in" of a worker, and that of all
/// ranks.
void add_comm_volume(io::Event& event, const training::CommVolume& volume);
/// Formats a communication volume: "all ranks 12.3 MiB; per worker 4.1 out, 4.1 in; per server 8.2 out, 8.2
/// in".
std::string format_comm_volume(const training::CommVolume& volume);
/// Adds the staleness of asynchronous updates.
void add_staleness(io::Event& event, const training::Staleness& staleness);
/// Formats metrics: "ndcg@100 0.4259  recall@20 0.3950", and with new items
/// "  new items: ndcg@100 0.1862 recall@20 0.1913".
std::string metrics_line(const evaluate::EvaluationResult& result);

struct RecommendOptions {
  int k = 10;              ///< number of items per user
  bool keep_seen = false;  ///< also recommend items that the user already has
  std::vector<std::uint8_t>
      allowed_items;    ///< (I) 0 for items that must not be recommended; empty: all are allowed
  int reasons = 0;      ///< number of the user's items named as reasons for each item; 0: none
  Csr categories = {};  ///< (I) numbers of the categories of each item; no rows: no limit
  int at_most = 0;      ///< maximum number of items of a category in a list
};

class Reasons;

/// Recommends the top items of users with the model of a checkpoint, which may be trained on any device. No
/// dataset is needed. It works on one rank, independently of other ranks, or on a model-parallel group. All
/// ranks of a model-parallel group must call its functions in the same order, with the same users.
class Recommender {
 public:
  /// Number of users per forward pass. Batches start at the first user of a call. On the CPU, results depend
  /// on the users of a batch, but not on the number of threads.
  static constexpr std::int64_t batch_users = 256;
  /// Number of items of a user that are left out in turn to explain the scores of a network.
  static constexpr std::int64_t max_left_out = 1000;

  /// The context must outlive this object. Throws InputError if k < 1, the model of `options` is not that of
  /// the checkpoint, or no item may be recommended.
  Recommender(const config::TrainingConfig& options, const RunContext& context,
              const io::CheckpointFile& checkpoint, RecommendOptions choice);
  ~Recommender();

  /// Returns the number of items per user: k, or the number of allowed items if that is less. Lists are
  /// shorter if categories are limited and too few items are left.
  std::int64_t list_length() const { return std::min<std::int64_t>(choice_.k, allowed_count_); }
  /// Returns the number of user features of the model; 0 if it has none.
  std::int64_t features() const { return model_->features(); }
  /// Writes the recommendations of all users to `items` and `scores`, both of shape (rows, width()). Items
  /// are sorted by descending score, and ties by ascending item. Unused positions have item -1 and score
  /// -inf. Users without items and features receive the most popular train items with score NaN. `features`
  /// has the same number of rows as `seen`, or none. Throws InputError if an item or feature index is out of
  /// range.
  void recommend(CsrView seen, CsrView features, std::span<std::int32_t> items, std::span<float> scores);
  /// Writes the reasons for the items that recommend() returned for the same users: those of the user's items
  /// with the largest contributions to the item's score, largest first, the lower item first of equal ones,
  /// and these contributions, both of shape (rows, width(), reasons). Unused positions, and those of users
  /// with popular items, have item -1 and contribution NaN. `last` contains those of the items that a network
  /// is to leave out; without rows, these are the last max_left_out items by number. The device must compute
  /// in fp32. Throws std::logic_error if the contributions in a linear model do not add up to the score.
  void explain(CsrView seen, CsrView last, CsrView features, std::span<const std::int32_t> items,
               std::span<const float> scores, std::span<std::int32_t> because,
               std::span<float> contributions);

 private:
  /// The users of a call of recommend().
  struct Inputs {
    CsrView seen;
    CsrView features;
    models::LoadedUsers& users;
  };
  /// Writes the best `width` items of users `rows` and their scores, without limits of categories.
  void rank(const Inputs& inputs, Range rows, std::int64_t width, std::span<std::int32_t> items,
            std::span<float> scores);
  /// Adds the lists of `width` items that the other ranks of a model-parallel group have computed. Collective
  /// in the model-parallel group.
  void complete_lists(std::int64_t users, std::int64_t width, std::span<std::int32_t> items,
                      std::span<float> scores) const;

  io::CheckpointFile checkpoint_;
  RecommendOptions choice_;
  std::unique_ptr<comm::Communicator> self_;
  RunContext single_rank_;
  std::int64_t items_ = 0;
  std::int64_t allowed_count_ = 0;
  std::vector<std::int32_t> excluded_;  // ascending
  std::unique_ptr<models::Scorer> model_;
  std::unique_ptr<Reasons> reasons_;                // null if no reasons are chosen
  std::unique_ptr<models::Popularity> popularity_;  // created on first use
};

}  // namespace vaecf::run
