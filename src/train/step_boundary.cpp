#include "step_boundary.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

namespace vaecf::train {
namespace {

constexpr double seconds_between = 0.25;
constexpr std::int64_t longest_stride = 256;

}  // namespace

StepBoundary::StepBoundary(const RunOptions& options, const Services& services, std::int64_t least_stride)
    : every_(options.checkpoint_every), services_(services), least_stride_(least_stride) {}

StepBoundary::Decision StepBoundary::before(std::int64_t step, bool agree) {
  Decision decision;
  decision.checkpoint = every_.steps > 0 && step % every_.steps == 0 && step > 0 && step != last_saved_;
  comm::Communicator& communicator = services_.communicator;
  std::array<std::int64_t, 3> votes = {services_.stop != nullptr && services_.stop->requested() ? 1 : 0, 0,
                                       1};
  if (communicator.size() > 1) {
    if (step < next_ && !agree) return decision;
    if (communicator.rank() == 0) votes = {votes[0], minutes_are_over() ? 1 : 0, stride(step)};
    communicator.all_reduce(std::span<std::int64_t>(votes), comm::Reduction::max);
    next_ = step + votes[2];
    agreed_step_ = step;
    agreed_at_ = Clock::now();
  } else {
    votes[1] = minutes_are_over() ? 1 : 0;
  }
  decision.stop = votes[0] == 1;
  decision.checkpoint = decision.checkpoint || votes[1] == 1;
  return decision;
}

bool StepBoundary::stop_requested() {
  const bool mine = services_.stop != nullptr && services_.stop->requested();
  return services_.communicator.all_reduce(std::int64_t{mine ? 1 : 0}, comm::Reduction::max) == 1;
}

void StepBoundary::saved(std::int64_t step) {
  last_saved_ = step;
  saved_at_ = Clock::now();
}

bool StepBoundary::minutes_are_over() const {
  return every_.minutes > 0.0 &&
         std::chrono::duration<double>(Clock::now() - saved_at_).count() >= 60.0 * every_.minutes;
}

std::int64_t StepBoundary::stride(std::int64_t step) const {
  if (agreed_step_ < 0 || step <= agreed_step_) return least_stride_;
  const double seconds = std::chrono::duration<double>(Clock::now() - agreed_at_).count();
  const double per_step = seconds / static_cast<double>(step - agreed_step_);
  const double steps = seconds_between / std::max(per_step, 1e-9);
  return std::clamp(static_cast<std::int64_t>(steps), least_stride_, std::max(least_stride_, longest_stride));
}

}  // namespace vaecf::train
