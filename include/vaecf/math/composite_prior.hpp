#pragma once

#include <vaecf/base/host_device.hpp>
#include <vaecf/math/elementwise.hpp>

#include <cmath>
#include <cstdint>

/// The composite prior of latent variables, swish, and layer normalization of one row (Shenbin et al., WSDM
/// 2020). T is float on devices and double in tests.
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
template <class T, class Threads, class Row>
VAECF_HD RowNorm<T> row_norm(Threads& thread_group, std::int64_t n, Row&& y) {
  const T mean = thread_group.sum(n, [&](std::int64_t j) { return y(j); }) / static_cast<T>(n);
  const T squares = thread_group.sum(n, [&](std::int64_t j) { return (y(j) - mean) * (y(j) - mean); });
  return {mean, T{1} / std::sqrt(squares / static_cast<T>(n) + static_cast<T>(norm_epsilon))};
}

/// The gradient with respect to y, given x = norm(y) and the gradient t with respect to x.
template <class T>
struct RowNormGradient {
  T scale;   ///< that of the RowNorm
  T mean;    ///< mean of t
  T mean_x;  ///< mean of t x

  VAECF_HD T operator()(T t, T x) const { return scale * (t - mean - x * mean_x); }
};

/// Returns the gradient for a row of n elements with the gradients t(j) and the normalized values x(j).
template <class T, class Threads, class Gradient, class Normalized>
VAECF_HD RowNormGradient<T> row_norm_gradient(Threads& thread_group, std::int64_t n, const RowNorm<T>& norm,
                                              Gradient&& t, Normalized&& x) {
  const T mean = thread_group.sum(n, [&](std::int64_t j) { return t(j); }) / static_cast<T>(n);
  const T mean_x = thread_group.sum(n, [&](std::int64_t j) { return t(j) * x(j); }) / static_cast<T>(n);
  return {norm.scale, mean, mean_x};
}

/// The prior of each latent dimension d (section 3.3; per dimension, as in the authors' code): a mixture of
/// N(0, 1), the old posterior N(mu_old, exp(logvar_old)), and N(0, e^10).
struct CompositePrior {
  /// Takes the weights of the three components, which should sum to 1.
  explicit CompositePrior(float standard = 0.15F, float old_posterior = 0.75F, float wide = 0.1F)
      : log_weight{std::log(standard), std::log(old_posterior), std::log(wide)} {}

  float log_weight[3];
  static constexpr float wide_logvar = 10.0F;
};

/// One latent dimension's term of log q(z) - log p(z), and its derivative with respect to z through p.
template <class T>
struct CompositeTerm {
  T kl;
  T d_z;
};

/// Computes a term for z = mu + eps * exp(logvar / 2).
template <class T>
VAECF_HD inline CompositeTerm<T> composite_term(const CompositePrior& prior, T mu, T logvar, T eps, T old_mu,
                                                T old_logvar) {
  const T z = reparameterize(mu, logvar, eps);
  const T mean[3] = {T{0}, old_mu, T{0}};
  const T log_variance[3] = {T{0}, old_logvar, T{CompositePrior::wide_logvar}};
  T pull[3];         // derivative of -log N(z) by z
  T log_density[3];  // without the constant -log(2 pi) / 2, which q has, too
  T largest = -INFINITY;
  for (int c = 0; c < 3; ++c) {
    pull[c] = (z - mean[c]) * std::exp(-log_variance[c]);
    log_density[c] = T{prior.log_weight[c]} - T{0.5} * (log_variance[c] + (z - mean[c]) * pull[c]);
    largest = log_density[c] > largest ? log_density[c] : largest;
  }
  T sum = T{0};
  T pulled = T{0};
  for (int c = 0; c < 3; ++c) {
    const T share = std::exp(log_density[c] - largest);
    sum += share;
    pulled += share * pull[c];
  }
  const T log_p = largest + std::log(sum);
  return {T{-0.5} * (logvar + eps * eps) - log_p, pulled / sum};
}

/// Returns the gradient of loss + weight * KL with respect to logvar, from that with respect to z, which is
/// also that with respect to mu.
template <class T>
VAECF_HD inline T composite_gradient_logvar(T d_z, T eps, T weight, T logvar) {
  return d_z * eps * T{0.5} * std::exp(T{0.5} * logvar) - T{0.5} * weight;
}

}  // namespace vaecf::math
