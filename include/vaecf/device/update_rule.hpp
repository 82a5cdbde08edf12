#pragma once

#include <vaecf/base/enum_names.hpp>
#include <vaecf/base/host_device.hpp>

#include <cmath>
#include <cstdint>

namespace vaecf::device {

enum class OptimizerKind { adam, rmsprop, sgd };

/// One optimiser step as plain numbers, filled by the optim room, so that a backend may apply it wherever
/// it likes. For each element, with g = clip * gradient_scale * gradient + decay * w:
///   adam     m = beta1 m + (1-beta1) g;  v = beta2 v + (1-beta2) g^2;  w -= rate * m / (sqrt(v) + epsilon)
///            (TensorFlow's form: `rate` holds the bias corrections, epsilon stands outside them)
///   rmsprop  v = beta2 v + (1-beta2) g^2;  m = beta1 m + rate * g / sqrt(v + epsilon);  w -= m
///   sgd      m = beta1 m + g;  w -= rate * m
struct UpdateRule {
  OptimizerKind kind = OptimizerKind::adam;
  float rate = 0.0F;
  float beta1 = 0.0F;  ///< first moment, or momentum
  float beta2 = 0.0F;
  float epsilon = 0.0F;
  float gradient_scale = 1.0F;  ///< 1 / global number of users of the step: gradients are sums over users
  float decay = 0.0F;           ///< 2 lambda, on tensors that decay, after the reduction
  /// clip = clip_norm / ||gradient_scale * gradient||_2 over all parameters, where that is below 1; else, and
  /// where clip_norm is 0, it is 1. See Backend::inspect_gradients.
  float clip_norm = 0.0F;
};

/// `clip`, from the sum of squares of the scaled gradient. Of a sum that is no number, 1: the loss will tell.
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
