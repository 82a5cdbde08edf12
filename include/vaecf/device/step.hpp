#pragma once

#include <vaecf/device/update_rule.hpp>

#include <cstdint>

namespace vaecf::device {

/// The parameters that differ between training steps.
struct StepParams {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;  ///< updates before this one, skipped ones included; part of the Philox counter
  std::int64_t batch = 0;  ///< index of the batch in the epoch's BatchSchedule
  float beta = 0.0F;       ///< weight of the KL term, the same for all users
  UpdateRule rule;         ///< its decay applies to tensors with weight decay only
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

/// This rank's sums of losses since the epoch began, and the loss scale, which is used in fp16 only.
struct StepSums {
  LossSums losses;
  LossScale scale;
};

}  // namespace vaecf::device
