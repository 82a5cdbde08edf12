#pragma once

#include <vaecf/base/host_device.hpp>
#include <vaecf/math/elementwise.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

/// The losses of one user and their gradients, shared by the kernels of all devices.
namespace vaecf::math {

// The multinomial loss (Liang et al. 2018, eq. 2) and the scale of its gradient.

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
    sum = rescaled_sum(top);
    for (const float x : logits) sum += std::exp(x - top);
    maximum = top;
  }
  VAECF_HD void add(float logit) {
    const float one[] = {logit};
    add(one);
  }
  /// Returns the contribution of this part to the sum of a softmax whose maximum is `top`, at least its own.
  VAECF_HD Sum rescaled_sum(float top) const { return sum * std::exp(maximum - top); }
};

/// Returns minus the sum of x log softmax over the user's items, given the sum of their values x and
/// `logits`, the sum of x logit.
template <class Sum>
VAECF_HD inline double nll(float values, const SoftmaxPart<Sum>& all, double logits) {
  if (values == 0.0F) return 0.0;
  const double log_sum = static_cast<double>(all.maximum) + std::log(static_cast<double>(all.sum));
  return static_cast<double>(values) * log_sum - logits;
}

/// Returns the scale s in the gradient of nll() with respect to a logit: s * exp(logit - maximum), minus x at
/// the user's items. It is 0 for a user without items, even if the sum is NaN.
template <class Sum>
VAECF_HD inline float softmax_scale(float values, const SoftmaxPart<Sum>& all) {
  return values > 0.0F ? static_cast<float>(static_cast<Sum>(values) / all.sum) : 0.0F;
}

constexpr float log2_e = 1.442695041F;

/// Returns the shift t for which 2^(logit log2(e) + t) = factor * exp(logit - maximum): -infinity if `factor`
/// is 0. A maximum below -1e38, that of logits which are all -infinity, counts as -1e38, since t would
/// overflow.
VAECF_HD inline float exponent_shift(float maximum, float factor) {
  return std::fma(-std::fmax(maximum, -1e38F), log2_e, std::log2(factor));
}

// The squared error of one output o = sigmoid(logit) for an input x of 0 or 1 (Sedhain et al., WWW 2015, with
// all items observed). A user's loss is the mean over the items.

/// Returns the gradient of (o - x)^2 of one item with respect to its logit; `error` is o - x. The caller
/// divides by the number of items.
template <class T>
VAECF_HD inline T squared_error_gradient(T error, T output) {
  return sigmoid_backward(T{2} * error, output);
}

// The cosine loss of item vectors (Vancura et al., RecSys 2022): A contains the rows of W divided by their L2
// norms, and the prediction for a user x is y = x A A' - x.

/// The loss term of one user, 1 - cos(x, y), and its derivatives.
struct CosineLoss {
  double loss = 0.0;
  double d_norm = 0.0;  ///< derivative with respect to ||h||^2
  double d_q = 0.0;     ///< derivative with respect to q
};

/// Returns the loss of a user x, without computing y. With h = x A / ||x||, the square `norm` = ||h||^2 and
/// `gram` = h' A'A h,
///   cos(x, y) = (||h||^2 - 1) / sqrt(q),   q = ||y||^2 / ||x||^2 = h' A'A h - 2 ||h||^2 + 1.
/// The cosine is 0, without gradient, if y is 0 except for rounding errors. The loss of a user without items
/// is 0.
VAECF_HD inline CosineLoss cosine_loss(bool has_items, double norm, double gram) {
  if (!has_items) return {};
  const double q = gram - 2.0 * norm + 1.0;
  if (q <= 1e-6 * (gram + 2.0 * norm + 1.0)) return {1.0, 0.0, 0.0};
  const double root = std::sqrt(q);
  return {1.0 - (norm - 1.0) / root, -1.0 / root, (norm - 1.0) / (2.0 * q * root)};
}

/// Returns the gradient of the loss with respect to an element of h, given that element of h, and `gram_h`,
/// that of A'A h.
VAECF_HD inline float cosine_gradient(const CosineLoss& loss, float h, float gram_h) {
  return static_cast<float>(2.0 * h * (loss.d_norm - 2.0 * loss.d_q) + 2.0 * loss.d_q * gram_h);
}

/// Returns the reciprocal of a row's L2 norm from its sum of squares; norms below 1e-12 count as 1e-12.
VAECF_HD inline float inverse_norm(float squares) {
  return 1.0F / std::fmax(std::sqrt(squares), 1e-12F);
}

/// Returns the gradient with respect to an element w of a row of W, from `d`, that with respect to the same
/// element of A. `inverse` is the row's inverse_norm(), and `dot` is the sum of w d over the row.
VAECF_HD inline float normalization_gradient(float d, float w, float inverse, float dot) {
  return inverse * (d - w * inverse * inverse * dot);
}

}  // namespace vaecf::math
