// What the sources of this module share: when to stop a training, and models that are solved at once.
#pragma once

#include <vaecf/base/error.hpp>
#include <vaecf/base/timeline.hpp>
#include <vaecf/evaluate/evaluator.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/run/run.hpp>
#include <vaecf/run/train.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vaecf::run {

/// Decides between two steps whether to stop or to write a checkpoint, equally on all ranks. Stop requests
/// may reach any rank and clocks differ, so the ranks synchronize. To keep short steps fast, they do so about
/// four times a second, at steps that were fixed by the previous synchronization.
class StepCoordinator {
 public:
  struct Decision {
    bool stop = false;
    bool checkpoint = false;  ///< a checkpoint is due by run.checkpoint_every
  };

  /// Ranks synchronize at most every `min_sync_interval` steps, since synchronizing makes them wait for each
  /// other.
  StepCoordinator(const config::RunOptions& options, const RunContext& context,
                  std::int64_t min_sync_interval)
      : every_(options.checkpoint_every), context_(context), min_sync_interval_(min_sync_interval) {}

  /// Returns the decision before step `step`. All ranks must call it at the same steps. With `force_sync`,
  /// they synchronize at this step in any case.
  Decision decide(std::int64_t step, bool force_sync) {
    const bool due = every_.steps > 0 && step % every_.steps == 0 && step > 0 && step != last_saved_;
    comm::Communicator& communicator = context_.communicator;
    const bool alone = communicator.size() == 1;
    if (!alone && step < next_ && !force_sync) return {false, due};
    // Stop request, checkpoint due by time, steps until the next synchronization; rank 0's clock decides the
    // latter two.
    std::array<std::int64_t, 3> votes = {std::int64_t{context_.this_rank_asked_to_stop()}, 0, 1};
    if (communicator.rank() == 0) {
      votes[1] = every_.minutes > 0.0 && seconds_since(saved_at_) >= 60.0 * every_.minutes ? 1 : 0;
      votes[2] = sync_interval(step);
    }
    if (!alone) communicator.all_reduce(std::span<std::int64_t>(votes), comm::Reduction::max);
    next_ = step + votes[2];
    synced_step_ = step;
    synced_at_ = Clock::now();
    return {votes[0] == 1, due || votes[1] == 1};
  }

  /// Records that a checkpoint was written before step `step`; the interval to the next one starts here.
  void saved(std::int64_t step) {
    last_saved_ = step;
    saved_at_ = Clock::now();
  }

 private:
  std::int64_t sync_interval(std::int64_t step) const {
    constexpr double seconds_between = 0.25;
    constexpr std::int64_t max_stride = 256;
    if (synced_step_ < 0 || step <= synced_step_) return min_sync_interval_;
    const double per_step = seconds_since(synced_at_) / static_cast<double>(step - synced_step_);
    return std::clamp(static_cast<std::int64_t>(seconds_between / std::max(per_step, 1e-9)),
                      min_sync_interval_, std::max(min_sync_interval_, max_stride));
  }

  config::CheckpointEvery every_;
  RunContext context_;
  std::int64_t min_sync_interval_;
  std::int64_t last_saved_ = -1;
  Clock::time_point saved_at_ = Clock::now();
  std::int64_t next_ = 0;  // the step of the next synchronization
  std::int64_t synced_step_ = -1;
  Clock::time_point synced_at_;
};

/// Returns the events in metrics.jsonl of the run folder; none if there is no such file.
std::vector<io::Json> read_events(const config::TrainingConfig& options);

/// Returns whether the run evaluates on validation users.
bool validates(const Run& run);
/// Returns the metric that selects the best epoch or solution; "last" without validation.
std::string selection_of(const Run& run);

/// Returns the memory of a rank that is trained by steps, as one line.
std::string memory_text(const Run& run);

/// Returns the number of neighbors of an item in a model of `type`; 0: all items.
std::int64_t neighbors_of(models::ModelType type, const models::ModelOptions& options);
/// Returns the numbers of solutions and evaluations after the first `done` combinations of model.ease.
std::string solutions_text(const Run& run, std::int64_t done = 0);
/// Returns the bytes per host that a model of `type`, which is_solved(), takes while it is solved and
/// evaluated.
double memory_to_solve(models::ModelType type, const Run& run);
/// Checks that a model of `type`, which is_solved(), fits into memory. Throws InputError on the affected
/// ranks if it does not.
void require_memory_to_solve(models::ModelType type, const Run& run);
/// Checks that the model of the run, which is_solved(), can be solved. Throws InputError on the affected
/// ranks if it does not fit into memory, or if several values of model.ease cannot be compared.
void validate_solve(const Run& run);

/// Returns whether a run continues the search whose best solution is run.resume_from: not if solutions
/// were selected by another metric, which is logged. Collective. Throws InputError on all ranks if the file
/// is not in the folder of the run.
[[nodiscard]] bool continues_solutions(const Run& run);

/// Solves the model of the run, which is_solved(): all combinations of the values of model.ease, of which
/// the best by validation.select is written to best.h5. Writes metrics.jsonl and config.yaml as train() does.
/// With run.resume_from, does not solve again what the log and best.h5 contain. A request to stop ends a
/// solution, whose combination is solved again when the run continues. Collective. Throws InputError
/// for invalid input, RunError if the checkpoint could not be written.
TrainResult solve(const Run& run);

/// Returns why EASE is not a baseline of `auto` on ranks with `threads` threads in total and `memory` bytes
/// per rank: one solution takes more than 10^12 operations per thread, all `solutions` take more than four
/// times as many, or one takes more bytes than a quarter of the memory. Empty if none holds, so the baselines
/// do not depend on the load of the machine.
std::string cost_of_ease(std::int64_t items, std::int64_t neighbors, std::int64_t solutions,
                         std::int64_t threads, double memory);

/// Computes the baselines that validation.baselines selects on the users of `evaluator`. The values
/// of EASE are chosen on the validation users, if there are several and such users; otherwise the first ones
/// are used. Appends the baselines that `auto` leaves out to `left_out`, unless it is null.
/// Collective.
std::vector<Baseline> evaluate_baselines(const Run& run, evaluate::Evaluator& evaluator,
                                         std::vector<LeftOut>* left_out = nullptr);

/// Writes the metrics of each user in the results of a test, which `evaluator` made, to the file `path`.
/// `origin`: attributes of the file that describe the model. Collective.
void write_per_user(const Run& run, evaluate::Evaluator& evaluator, const TestResult& result,
                    const std::string& path, io::Attributes origin);

}  // namespace vaecf::run
