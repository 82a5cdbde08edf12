#pragma once

#include <vaecf/train/session.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "train/run/machine.hpp"

namespace vaecf::train {

/// Decides between two steps whether to stop or to write a checkpoint, equally on all ranks. Stop requests
/// may reach any rank and clocks differ, so the ranks synchronize. To keep short steps fast, they do so about
/// four times a second, at steps that were fixed by the previous synchronization.
class StepBoundary {
 public:
  struct Decision {
    bool stop = false;
    bool checkpoint = false;  ///< a checkpoint is due by run.checkpoint_every
  };

  /// Ranks synchronize at most every `min_stride` steps, since synchronizing makes them wait for each
  /// other.
  StepBoundary(const RunOptions& options, const Services& services, std::int64_t min_stride)
      : every_(options.checkpoint_every), services_(services), min_stride_(min_stride) {}

  /// Returns the decision before step `step`. All ranks must call it at the same steps. With `agree`, they
  /// synchronize at this step in any case.
  Decision before(std::int64_t step, bool agree) {
    const bool due = every_.steps > 0 && step % every_.steps == 0 && step > 0 && step != last_saved_;
    comm::Communicator& communicator = services_.communicator;
    const bool alone = communicator.size() == 1;
    if (!alone && step < next_ && !agree) return {false, due};
    // Stop request, checkpoint due by time, steps until the next synchronization; rank 0's clock decides the
    // latter two.
    std::array<std::int64_t, 3> votes = {asked_to_stop(), 0, 1};
    if (communicator.rank() == 0) {
      votes[1] = every_.minutes > 0.0 && seconds_since(saved_at_) >= 60.0 * every_.minutes ? 1 : 0;
      votes[2] = stride(step);
    }
    if (!alone) communicator.all_reduce(std::span<std::int64_t>(votes), comm::Reduction::max);
    next_ = step + votes[2];
    agreed_step_ = step;
    agreed_at_ = Clock::now();
    return {votes[0] == 1, due || votes[1] == 1};
  }

  /// Returns whether a stop was requested on any rank. Collective.
  bool stop_requested() {
    return services_.communicator.all_reduce(asked_to_stop(), comm::Reduction::max) == 1;
  }

  /// Records that a checkpoint was written before step `step`; the interval to the next one starts here.
  void saved(std::int64_t step) {
    last_saved_ = step;
    saved_at_ = Clock::now();
  }

 private:
  std::int64_t asked_to_stop() const {
    return services_.stop != nullptr && services_.stop->requested() ? 1 : 0;
  }
  std::int64_t stride(std::int64_t step) const {
    constexpr double seconds_between = 0.25;
    constexpr std::int64_t max_stride = 256;
    if (agreed_step_ < 0 || step <= agreed_step_) return min_stride_;
    const double per_step = seconds_since(agreed_at_) / static_cast<double>(step - agreed_step_);
    return std::clamp(static_cast<std::int64_t>(seconds_between / std::max(per_step, 1e-9)), min_stride_,
                      std::max(min_stride_, max_stride));
  }

  CheckpointEvery every_;
  Services services_;
  std::int64_t min_stride_;
  std::int64_t last_saved_ = -1;
  Clock::time_point saved_at_ = Clock::now();
  std::int64_t next_ = 0;  // the step of the next synchronization
  std::int64_t agreed_step_ = -1;
  Clock::time_point agreed_at_;
};

}  // namespace vaecf::train
