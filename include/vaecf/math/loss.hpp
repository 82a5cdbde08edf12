#pragma once

#include <vaecf/base/host_device.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

/// The multinomial loss of one user (Liang et al. 2018, eq. 2) and the scale of its gradient. All kernels of
/// the output layer call these functions and keep loops, blocks and instructions of their own.
namespace vaecf::math {

/// The softmax over a part of a user's logits, or over all of them, found in one pass (Milakov and
/// Gimelshein, "Online normalizer calculation for softmax", 2018). It starts at the lowest finite number:
/// with -infinity, parts that begin with -infinity would become NaN. A NaN, or an infinite number above,
/// makes the sum a NaN.
template <class Sum>
struct SoftmaxPart {
  float maximum = -std::numeric_limits<float>::max();  ///< or another reference that no exponential overflows
  Sum sum = 0;                                         ///< of exp(logit - maximum)

  template <int n>
  VAECF_HD void add(const float (&logits)[n]) {
    float top = maximum;
    for (const float x : logits) top = std::fmax(top, x);
    sum = sum_below(top);
    for (const float x : logits) sum += std::exp(x - top);
    maximum = top;
  }
  VAECF_HD void add(float logit) {
    const float one[] = {logit};
    add(one);
  }
  /// What this part adds to the sum of a softmax whose maximum is `top`.
  VAECF_HD Sum sum_below(float top) const { return sum * std::exp(maximum - top); }
};

/// Minus the sum over the user's `count` items of log softmax; `own` is the sum of their logits.
template <class Sum>
VAECF_HD inline double nll(std::int64_t count, const SoftmaxPart<Sum>& all, double own) {
  if (count == 0) return 0.0;
  const double log_sum = static_cast<double>(all.maximum) + std::log(static_cast<double>(all.sum));
  return static_cast<double>(count) * log_sum - own;
}

/// The gradient of nll by a logit is this scale times exp(logit - maximum), less 1 at the user's own items.
/// It is 0 for a user without items even when the sum is not a number.
template <class Sum>
VAECF_HD inline float softmax_scale(std::int64_t count, const SoftmaxPart<Sum>& all) {
  return count > 0 ? static_cast<float>(static_cast<Sum>(count) / all.sum) : 0.0F;
}

}  // namespace vaecf::math
