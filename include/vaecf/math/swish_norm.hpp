#pragma once

#include <vaecf/base/host_device.hpp>
#include <vaecf/math/elementwise.hpp>

#include <cmath>
#include <cstdint>

/// Swish and layer normalization of one row, as in RecVAE (Shenbin et al., "RecVAE: a new variational
/// autoencoder for top-N recommendations with implicit feedback", WSDM 2020). T is float on devices and
/// double in tests.
namespace vaecf::math {

/// Added to the variance of a row. A large value, as in the authors' code.
constexpr double norm_epsilon = 0.1;

/// Returns the derivative of swish(s) = s sigmoid(s), given sigmoid(s).
template <class T>
VAECF_HD inline T swish_derivative(T s, T sigmoid) {
  return sigmoid * (T{1} + s * (T{1} - sigmoid));
}

/// Layer normalization of a row (Ba et al. 2016), without gain and offset.
template <class T>
struct RowNorm {
  T mean;
  T scale;  ///< 1 / sqrt(biased variance + norm_epsilon)

  VAECF_HD T operator()(T y) const { return (y - mean) * scale; }
};

/// Returns the normalization of the row y(0) .. y(n - 1); n must be at least 1.
template <class T, class Group, class Row>
VAECF_HD RowNorm<T> row_norm(Group& group, std::int64_t n, Row&& y) {
  const T mean = group.sum(n, [&](std::int64_t j) { return y(j); }) / static_cast<T>(n);
  const T squares = group.sum(n, [&](std::int64_t j) { return (y(j) - mean) * (y(j) - mean); });
  return {mean, T{1} / std::sqrt(squares / static_cast<T>(n) + static_cast<T>(norm_epsilon))};
}

/// The gradient by y, given x = norm(y) and the gradient t by x.
template <class T>
struct RowNormGradient {
  T scale;   ///< that of the RowNorm
  T mean;    ///< mean of t
  T mean_x;  ///< mean of t x

  VAECF_HD T operator()(T t, T x) const { return scale * (t - mean - x * mean_x); }
};

/// Returns the gradient for a row of n elements with the gradients t(j) and the normalized values x(j).
template <class T, class Group, class Gradient, class Normalized>
VAECF_HD RowNormGradient<T> row_norm_gradient(Group& group, std::int64_t n, const RowNorm<T>& norm,
                                              Gradient&& t, Normalized&& x) {
  const T mean = group.sum(n, [&](std::int64_t j) { return t(j); }) / static_cast<T>(n);
  const T mean_x = group.sum(n, [&](std::int64_t j) { return t(j) * x(j); }) / static_cast<T>(n);
  return {norm.scale, mean, mean_x};
}

}  // namespace vaecf::math
