#pragma once

#include <vaecf/base/enum_names.hpp>
#include <vaecf/base/host_device.hpp>
#include <vaecf/base/views.hpp>

#include <cmath>
#include <cstdint>

namespace vaecf::device {

/// The values of train.optimizer.type.
enum class OptimizerKind { adam, rmsprop, sgd };

/// One optimizer update as plain parameters, so that a device can apply it in any kernel. For each element,
/// with g = clip * gradient_scale * gradient + decay * w:
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
  /// 2 lambda; added after the reduction over ranks, and only to tensors with weight decay.
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

}  // namespace vaecf::device

template <>
inline constexpr vaecf::EnumNames<vaecf::device::OptimizerKind, 3>
    vaecf::enum_names<vaecf::device::OptimizerKind>{{{vaecf::device::OptimizerKind::adam, "adam"},
                                                     {vaecf::device::OptimizerKind::rmsprop, "rmsprop"},
                                                     {vaecf::device::OptimizerKind::sgd, "sgd"}}};
