#include <vaecf/backend/cpu/device.hpp>

#include <algorithm>
#include <cmath>

namespace vaecf::cpu {

void Device::begin_step(const backend::StepNumbers& numbers, StepState& step) {
  step.numbers = numbers;
  step.nll = 0.0;
  step.kl = 0.0;
  step.users = 0;
  step.squares = 0.0;
  std::fill_n(step.verdict.data(), 2, 0.0F);
}

void Device::end_step(StepState& step) {
  if (step.sums.broken_step < 0 && !(std::isfinite(step.nll) && std::isfinite(step.kl))) {
    step.sums.broken_step = step.numbers.step;
    step.sums.broken_nll = step.nll;
    step.sums.broken_kl = step.kl;
  }
  step.sums.nll += step.nll;
  step.sums.kl += step.kl;
  step.sums.weighted_kl += static_cast<double>(step.numbers.beta) * step.kl;
  step.sums.users += step.users;
}

}  // namespace vaecf::cpu
