#pragma once

#include <vaecf/base/timeline.hpp>
#include <vaecf/run/run.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

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
  StepCoordinator(const config::RunOptions& options, const Context& context, std::int64_t min_sync_interval)
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
  Context context_;
  std::int64_t min_sync_interval_;
  std::int64_t last_saved_ = -1;
  Clock::time_point saved_at_ = Clock::now();
  std::int64_t next_ = 0;  // the step of the next synchronization
  std::int64_t synced_step_ = -1;
  Clock::time_point synced_at_;
};

}  // namespace vaecf::run
