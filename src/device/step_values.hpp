#pragma once

#include <vaecf/base/host_device.hpp>
#include <vaecf/device/step.hpp>

#include <cstdint>

namespace vaecf::device {

/// The values of a step that every device keeps, a GPU in device memory.
struct StepValues {
  StepParams params;
  double nll = 0.0;  // of the current step
  double kl = 0.0;
  double weighted_kl = 0.0;  // the part whose weight depends on the user
  std::int64_t users = 0;
  double squares = 0.0;  // of the gradient parts inspected so far
  LossSums sums;

  VAECF_HD void begin(const StepParams& of_step) {
    params = of_step;
    nll = 0.0;
    kl = 0.0;
    weighted_kl = 0.0;
    users = 0;
    squares = 0.0;
  }

  /// Returns whether the losses of the current step are finite.
  VAECF_HD bool finite() const { return nll - nll == 0.0 && kl - kl == 0.0; }

  /// Adds the losses of the current step to the sums.
  VAECF_HD void add_to_sums() {
    if (sums.nonfinite_step < 0 && !finite()) {
      sums.nonfinite_step = params.step;
      sums.nonfinite_nll = nll;
      sums.nonfinite_kl = kl;
    }
    sums.nll += nll;
    sums.kl += kl;
    sums.weighted_kl += static_cast<double>(params.beta) * kl;
    sums.weighted_kl += weighted_kl;
    sums.users += users;
  }

  /// Returns the rule for tensors with or without weight decay. Its gradient_scale includes clipping, given
  /// the squared norm of the gradient, and the loss scale.
  VAECF_HD UpdateRule rule(bool decays, float squared_norm, float loss_scale) const {
    UpdateRule rule = params.rule;
    rule.gradient_scale *= clip_factor(rule, squared_norm) / loss_scale;
    if (!decays) rule.decay = 0.0F;
    return rule;
  }
};

}  // namespace vaecf::device
