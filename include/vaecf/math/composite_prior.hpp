#pragma once

#include <vaecf/base/host_device.hpp>
#include <vaecf/math/elementwise.hpp>

#include <cmath>

namespace vaecf::math {

/// RecVAE's prior of each latent dimension d (Shenbin et al., WSDM 2020, section 3.3; per dimension, as in
/// the authors' code): a mixture of N(0, 1), the old posterior N(mu_old, exp(logvar_old)), and N(0, e^10).
struct CompositePrior {
  /// Takes the weights of the three components, which should sum to 1.
  explicit CompositePrior(float standard = 0.15F, float old_posterior = 0.75F, float wide = 0.1F)
      : log_weight{std::log(standard), std::log(old_posterior), std::log(wide)} {}

  float log_weight[3];
  static constexpr float wide_logvar = 10.0F;
};

/// One latent dimension's term of log q(z) - log p(z), and its derivative by z through p.
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

/// Returns the gradient of loss + weight * KL by logvar, from its gradient by z, which is that by mu, too.
template <class T>
VAECF_HD inline T composite_gradient_logvar(T d_z, T eps, T weight, T logvar) {
  return d_z * eps * T{0.5} * std::exp(T{0.5} * logvar) - T{0.5} * weight;
}

}  // namespace vaecf::math
