#include <vaecf/comm/communicator.hpp>
#include <vaecf/device/device.hpp>
#include <vaecf/models/kind.hpp>
#include <vaecf/run/events.hpp>
#include <vaecf/run/plan.hpp>

#include "run/memory.hpp"
#include "run/selection.hpp"
#include "run/solve.hpp"

namespace vaecf::run {
namespace {

constexpr double mib = 1048576.0;
constexpr std::int64_t timed_steps = 20;
constexpr double max_timed_seconds = 10.0;

std::string row(const std::string& label, const std::string& text) {
  return format("  {:<19}{}\n", label, text);
}

std::string duration_text(double seconds) {
  if (seconds >= 3600.0) return format("{:.1f} h", seconds / 3600.0);
  return format("{:.{}f} s", seconds, seconds < 10.0 ? 2 : 0);
}

/// Returns the maximum number of checkpoints at a time: those to resume from, best.h5, and the one being
/// written.
std::int64_t count_of_checkpoints(const config::TrainingConfig& options) {
  const config::CheckpointEvery& every = options.run.checkpoint_every;
  const bool resumable =
      !models::is_solved(options.model.type) && (every.epochs != 0 || every.steps > 0 || every.minutes > 0.0);
  return (resumable ? options.run.keep : 0) + 2;
}

std::string disk_row(const Run& run, double each) {
  const std::int64_t count = count_of_checkpoints(run.options);
  return row(
      "checkpoints",
      format(
          "about {:.1f} MiB on disk: at most {} files of {:.1f} MiB, with best.h5 and the one being written",
          static_cast<double>(count) * each / mib, count, each / mib));
}

/// Predicts the first epoch from its first steps, or those of each of its passes.
class EpochPrediction {
 public:
  EpochPrediction(const Run& run, training::Trainer& trainer) : run_(run), trainer_(trainer) {
    const std::int64_t passes =
        std::ssize(models::trained_kind_of(run.options.model.type).passes(run.options.model));
    for (std::int64_t pass = 0; pass < passes; ++pass) time_pass(pass, passes);
  }

  double seconds() const { return seconds_; }
  std::string step_text() const {
    return format("{:.3g} ms, the mean of {}", 1e3 * timed_seconds_ / static_cast<double>(timed_), timed_);
  }
  /// Returns the predicted duration of `users` users in training.
  double seconds_of(std::int64_t users) const {
    return seconds_ * static_cast<double>(users) / static_cast<double>(trainer_.users_per_epoch());
  }
  /// Returns what is left of the time for measurements.
  double seconds_left() const { return max_timed_seconds - spent_; }

 private:
  double slowest(double seconds) const { return run_.communicator.all_reduce(seconds, comm::Reduction::max); }

  /// Runs steps [begin, end) of the epoch. Returns their duration on the slowest rank.
  double run_steps(std::int64_t begin, std::int64_t end) {
    const auto start = Clock::now();
    for (std::int64_t t = begin; t < end; ++t) trainer_.step(t);
    (void)trainer_.losses();
    const double seconds = slowest(seconds_since(start));
    spent_ += seconds;
    return seconds;
  }

  void time_pass(std::int64_t pass, std::int64_t passes) {
    const std::int64_t steps = trainer_.steps_per_epoch() / passes;
    const std::int64_t first = pass * steps;
    const auto begin = Clock::now();
    trainer_.restore_progress(first, trainer_.users_before(first), {});
    trainer_.start_epoch(0, first);
    const double sampling = slowest(seconds_since(begin));
    spent_ += sampling;
    // Later passes are sampled during the one before.
    if (pass == 0) seconds_ += sampling;
    // The first step allocates; a GPU also captures graphs, each in one of the first steps.
    const std::int64_t gpu = run_.device.facts().kind == device::DeviceKind::cpu ? 0 : 11;
    const std::int64_t warm = std::min(steps, 1 + gpu);
    const double warm_seconds = run_steps(first, first + warm);
    const double affordable =
        (max_timed_seconds * static_cast<double>(pass + 1) / static_cast<double>(passes) - spent_) *
        static_cast<double>(warm) / warm_seconds;
    const std::int64_t most = std::max<std::int64_t>(1, timed_steps / passes);
    const auto wanted = static_cast<std::int64_t>(std::clamp(affordable, 1.0, static_cast<double>(most)));
    const std::int64_t end = std::min(steps, warm + wanted);
    double timed = run_steps(first + warm, first + end);
    std::int64_t count = end - warm;
    seconds_ += warm_seconds + timed;
    if (count == 0) {  // the pass has no other steps
      timed = warm_seconds;
      count = warm;
    }
    timed_ += count;
    timed_seconds_ += timed;
    // The last batch may be smaller than the others.
    const std::int64_t left = trainer_.users_per_epoch() / passes - trainer_.users_before(end);
    if (end < steps) {
      const auto users = static_cast<double>(count * run_.options.train.batch_size);
      seconds_ += timed / users * static_cast<double>(left);
    }
  }

  const Run& run_;
  training::Trainer& trainer_;
  double seconds_ = 0.0;
  double spent_ = 0.0;  // in sampling and steps
  double timed_seconds_ = 0.0;
  std::int64_t timed_ = 0;
};

/// Times steps and, if that takes little time, a validation.
std::string timed_rows(const Run& run) {
  const bool evaluates = validates(run);
  training::Trainer trainer(run, run.options, run.dataset,
                            evaluates ? run.device.facts().evaluation_batch : 0);
  const std::int64_t epochs = run.options.train.epochs;
  const EpochPrediction epoch(run, trainer);
  std::string rows =
      row("communication/step",
          run.communicator.size() > 1 ? format_comm_volume(trainer.facts().comm_volume) : "none: one rank");
  if (run.communicator.size() > 1) {
    rows += row("gradients", format("in buckets of {:g} MiB, {}",
                                    comm::bucket_bytes(run.options.distributed, run.communicator) / mib,
                                    run.communicator.description()));
  }
  rows += row("step", epoch.step_text());
  rows += row("epoch", format("{}, {} steps", duration_text(epoch.seconds()), trainer.steps_per_epoch()));
  double seconds = static_cast<double>(epochs) * epoch.seconds();
  std::string without = "checkpoints and tests";
  if (evaluates) {
    evaluate::Evaluator evaluator(run, run.dataset, "validation", run.options.validation.metrics);
    // Ranking all items takes about as long as a step for the same users.
    if (2.0 * epoch.seconds_of(evaluator.users()) < epoch.seconds_left()) {
      evaluator.prepare(trainer.model());
      const auto begin = Clock::now();
      evaluator.evaluate(trainer.model());
      const double once = run.communicator.all_reduce(seconds_since(begin), comm::Reduction::max);
      const std::int64_t every = run.options.validation.every;
      const std::int64_t times = (epochs + every - 1) / every;  // the last epoch is always validated
      seconds += static_cast<double>(times) * once;
      rows +=
          row("validation", format("{}, {} users, {} times", duration_text(once), evaluator.users(), times));
    } else {
      without = "validation, checkpoints and tests";
    }
  }
  return rows + row("run", format("{}, {} epochs, without {}", duration_text(seconds), epochs, without));
}

}  // namespace

std::int64_t checkpoint_bytes(const config::TrainingConfig& options, const io::DatasetFile& dataset) {
  // A checkpoint depends on neither the ranks nor the device.
  const auto alone = comm::make_self_communicator();
  const auto cpu = device::make_device({.device = device::DeviceChoice::cpu, .threads = 1});
  Log log;
  Progress progress;
  const Context context{*alone, *cpu, log, progress};
  const models::Cost cost =
      models::kind_of(options.model.type).cost(options.model, workload_of(options, dataset, context));
  return count_of_checkpoints(options) * static_cast<std::int64_t>(cost.checkpoint_bytes);
}

std::string plan(const Run& run) {
  const models::ModelType type = run.options.model.type;
  const models::Cost cost = cost_of(models::kind_of(type), run);
  std::string text =
      format("plan of {}: {}, {} train users, {} items, {} ranks\n", excerpt(run.options.name),
             vaecf::to_string(type), run.dataset.rows("train"), run.dataset.items(), run.communicator.size());
  text += row("memory", cost.memory);
  if (cost.operations_once > 0.0)
    text += row("low-rank term", format("about {:.3g} x 10^9 operations, once", cost.operations_once / 1e9));
  text += disk_row(run, cost.checkpoint_bytes);
  if (!models::is_solved(type)) return text + timed_rows(run);
  return text + row("run", format("{}; the time is not predicted, since a solution has no steps",
                                  solutions_text(run)));
}

}  // namespace vaecf::run
