#pragma once

#include <vaecf/train/session.hpp>

#include <chrono>
#include <cstdint>

namespace vaecf::train {

/// What is to happen between two steps, the same on all ranks. A request to stop may reach any rank and a
/// clock differs from rank to rank, so they agree; not before every step, which would cost fast ones, but
/// about four times a second, at steps that all know.
class StepBoundary {
 public:
  struct Decision {
    bool stop = false;
    bool checkpoint = false;  ///< run.checkpoint_every says it is time
  };

  /// Ranks agree `least_stride` steps apart or more: agreeing, they wait for each other.
  StepBoundary(const RunOptions& options, const Services& services, std::int64_t least_stride = 1);

  /// Before step `step`. All ranks call it at the same steps; where `agree`, they agree at this one.
  Decision before(std::int64_t step, bool agree);
  /// Now, whatever the step. Collective.
  bool stop_requested();
  /// A checkpoint was written: the next one is due from here.
  void saved(std::int64_t step);

 private:
  using Clock = std::chrono::steady_clock;
  bool minutes_are_over() const;
  /// On rank 0: steps until the next agreement.
  std::int64_t stride(std::int64_t step) const;

  CheckpointEvery every_;
  Services services_;
  std::int64_t least_stride_;
  std::int64_t last_saved_ = -1;
  Clock::time_point saved_at_ = Clock::now();
  std::int64_t next_ = 0;  // the step of the next agreement
  std::int64_t agreed_step_ = -1;
  Clock::time_point agreed_at_;
};

}  // namespace vaecf::train
