#pragma once

#include <vaecf/base/host_device.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

/// The multinomial loss of one user (Liang et al. 2018, eq. 2) and the scale of its gradient, shared by all
/// kernels of the output layer.
namespace vaecf::math {

/// A softmax over all or some of a user's logits, computed in one pass (Milakov and Gimelshein, "Online
/// normalizer calculation for softmax", 2018). `maximum` starts at the lowest finite float: starting at
/// -infinity would turn parts that begin with -infinity into NaN. A NaN or +infinity among the logits makes
/// `sum` NaN.
template <class Sum>
struct SoftmaxPart {
  float maximum = -std::numeric_limits<float>::max();  ///< maximum, or another reference for which no
                                                       ///< exponential overflows
  Sum sum = 0;                                         ///< sum of exp(logit - maximum)

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
  /// Returns the contribution of this part to the sum of a softmax whose maximum is `top`.
  VAECF_HD Sum sum_below(float top) const { return sum * std::exp(maximum - top); }
};

/// Returns minus the sum of log softmax over the user's `count` items; `own` is the sum of their logits.
template <class Sum>
VAECF_HD inline double nll(std::int64_t count, const SoftmaxPart<Sum>& all, double own) {
  if (count == 0) return 0.0;
  const double log_sum = static_cast<double>(all.maximum) + std::log(static_cast<double>(all.sum));
  return static_cast<double>(count) * log_sum - own;
}

/// Returns the scale s in the gradient of nll() by a logit: s * exp(logit - maximum), minus 1 at the user's
/// own items. It is 0 for a user without items, even if the sum is NaN.
template <class Sum>
VAECF_HD inline float softmax_scale(std::int64_t count, const SoftmaxPart<Sum>& all) {
  return count > 0 ? static_cast<float>(static_cast<Sum>(count) / all.sum) : 0.0F;
}

}  // namespace vaecf::math
