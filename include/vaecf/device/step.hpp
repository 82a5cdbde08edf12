#pragma once

#include <vaecf/base/enum_names.hpp>
#include <vaecf/base/host_device.hpp>
#include <vaecf/base/views.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

namespace vaecf::device {

/// The values of train.optimizer.type.
enum class OptimizerKind { adam, rmsprop, sgd };

/// One optimizer update as plain parameters, so that a device can apply it in any kernel. For each element,
/// with g = clip * gradient_scale * gradient + decay * w (StepValues::rule() folds clip and the loss scale
/// into gradient_scale):
///   adam     m = beta1 m + (1-beta1) g;  v = beta2 v + (1-beta2) g^2;  w -= rate * m / (sqrt(v) + epsilon)
///            (TensorFlow's form, section 2 of Kingma and Ba 2015: `rate` includes both bias corrections, and
///            epsilon is added to the uncorrected sqrt(v); torch.optim.Adam adds it to the corrected one)
///   rmsprop  v = beta2 v + (1-beta2) g^2;  m = beta1 m + rate * g / sqrt(v + epsilon);  w -= m
///   sgd      m = beta1 m + g;  w -= rate * m
/// In rmsprop and sgd, beta1 is the momentum.
struct UpdateRule {
  OptimizerKind kind = OptimizerKind::adam;
  float rate = 0.0F;
  float beta1 = 0.0F;  ///< decay rate of the first moment, or the momentum
  float beta2 = 0.0F;  ///< decay rate of the second moment
  float epsilon = 0.0F;
  float gradient_scale = 1.0F;  ///< 1 / global number of users of the step: gradients are sums over users
  /// lambda of train.weight_decay: lambda w is added after the reduction over ranks, and only to tensors with
  /// weight decay.
  float decay = 0.0F;
  /// Maximum norm of the scaled gradient over all parameters; 0: no clipping. clip = min(1, clip_norm /
  /// ||gradient_scale * gradient||_2). See device::Device, accumulate_gradient_stats().
  float clip_norm = 0.0F;
};

/// Flat elements of one tensor to be updated, and whether weight decay applies to them.
struct UpdateRange {
  Range elements;
  bool decays = false;
};

/// Returns the factor `clip` of UpdateRule, given the sum of squares of the scaled gradient. Returns 1 if the
/// sum is NaN; the check for a non-finite loss reports such a step.
VAECF_HD inline float clip_factor(const UpdateRule& rule, float squares) {
  const float norm = std::sqrt(squares);
  return rule.clip_norm > 0.0F && norm > rule.clip_norm ? rule.clip_norm / norm : 1.0F;
}

/// The parameters that differ between training steps.
struct StepParams {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;  ///< updates before this one, skipped ones included; part of the Philox counter
  std::int64_t batch = 0;  ///< index of the batch in the epoch's BatchSchedule
  float beta = 0.0F;       ///< weight of the KL term, the same for all users
  UpdateRule rule;         ///< its decay applies to tensors with weight decay only
  /// Users of the batch; those behind them, in padded batches, add nothing to losses and gradients.
  std::int64_t users = std::numeric_limits<std::int64_t>::max();
};

/// Sums of loss terms over users in fp64, and counts of steps, since set_losses(). end_step() adds a step.
struct LossSums {
  double nll = 0.0;          ///< reconstruction term: - sum_u sum_i x_ui log_softmax(logits_u)_i, or
                             ///< sum_u mean_i (o_ui - x_ui)^2 with the squared error
  double kl = 0.0;           ///< sum_u KL(q(z|x_u) || p(z)); p is N(0, 1) or the composite prior
  double weighted_kl = 0.0;  ///< KL term of the loss: sum_u w_u KL_u, with each step's own weights w_u
  std::int64_t users = 0;
  std::int64_t skipped = 0;  ///< fp16: steps skipped because of gradient overflow; not part of any sum
  /// First step (StepParams::step) whose loss was NaN or infinite, with its terms; -1: none. Always -1 in
  /// fp16, which skips such steps.
  std::int64_t nonfinite_step = -1;
  double nonfinite_nll = 0.0;
  double nonfinite_kl = 0.0;

  /// Returns these sums without the record of a non-finite step.
  LossSums without_nonfinite() const { return {nll, kl, weighted_kl, users, skipped, -1, 0.0, 0.0}; }
};

/// Scale of fp16 gradients, so that small values do not underflow. On overflow the scale is halved and the
/// step skipped; after `growth_interval` consecutive good steps it is doubled (Micikevicius et al. 2018).
struct LossScale {
  float scale = 65536.0F;
  std::int32_t good_steps = 0;  ///< since the last change

  static constexpr std::int32_t growth_interval = 2000;
  static constexpr float max_scale = 16777216.0F;
};

/// This rank's sums of losses since set_losses(), and the loss scale, which is used in fp16 only.
struct StepSums {
  LossSums losses;
  LossScale scale;
};

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

namespace vaecf {

template <>
inline constexpr auto enum_names<device::OptimizerKind> = named<device::OptimizerKind>("adam", "rmsprop",
                                                                                       "sgd");

}  // namespace vaecf
