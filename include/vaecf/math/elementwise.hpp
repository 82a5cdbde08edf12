#pragma once

#include <vaecf/base/half_precision.hpp>
#include <vaecf/base/host_device.hpp>

#include <cmath>
#include <concepts>
#include <cstdint>
#include <type_traits>

/// Branch-free formulas for one element, so that loops over them can be vectorized, and the threads that
/// process a row of elements together. T is float on devices and double in reference implementations.
namespace vaecf::math {

/// Returns the gradient g of an optimizer step with weight decay: gradient_scale * gradient + decay * w.
template <class T>
VAECF_HD inline T step_gradient(T gradient, T gradient_scale, T decay, T w) {
  return gradient_scale * gradient + decay * w;
}

/// Applies Adam in TensorFlow's form: `rate` includes the bias corrections, and epsilon is outside of them.
template <class T>
VAECF_HD inline void adam_element(T g, T rate, T beta1, T beta2, T epsilon, T& m, T& v, T& w) {
  m = beta1 * m + (T{1} - beta1) * g;
  v = beta2 * v + (T{1} - beta2) * g * g;
  w -= rate * m / (std::sqrt(v) + epsilon);
}

/// Applies RMSProp with momentum beta1; epsilon is inside the root.
template <class T>
VAECF_HD inline void rmsprop_element(T g, T rate, T beta1, T beta2, T epsilon, T& m, T& v, T& w) {
  v = beta2 * v + (T{1} - beta2) * g * g;
  m = beta1 * m + rate * g / std::sqrt(v + epsilon);
  w -= m;
}

/// Applies gradient descent with momentum beta1.
template <class T>
VAECF_HD inline void sgd_element(T g, T rate, T beta1, T& m, T& w) {
  m = beta1 * m + g;
  w -= rate * m;
}

/// Returns the gradient of the loss with respect to x, from that with respect to y = tanh(x).
template <class T>
VAECF_HD inline T tanh_backward(T d_y, T y) {
  return d_y * (T{1} - y * y);
}

template <class T>
VAECF_HD inline T sigmoid(T x) {
  return T{1} / (T{1} + std::exp(-x));
}

/// Returns the gradient of the loss with respect to x, from that with respect to y = sigmoid(x).
template <class T>
VAECF_HD inline T sigmoid_backward(T d_y, T y) {
  return d_y * y * (T{1} - y);
}

/// Returns z = mu + eps * exp(logvar / 2).
template <class T>
VAECF_HD inline T reparameterize(T mu, T logvar, T eps) {
  return mu + eps * std::exp(T{0.5} * logvar);
}

/// Returns one latent dimension's term of KL(N(mu, exp(logvar)) || N(0, 1)).
template <class T>
VAECF_HD inline T kl_term(T mu, T logvar) {
  return T{0.5} * (std::exp(logvar) + mu * mu - T{1} - logvar);
}

/// Returns the gradient of loss + beta * KL with respect to mu, from that with respect to z.
template <class T>
VAECF_HD inline T latent_gradient_mu(T d_z, T beta, T mu) {
  return d_z + beta * mu;
}

/// Returns the gradient of loss + beta * KL with respect to logvar, from that with respect to z.
template <class T>
VAECF_HD inline T latent_gradient_logvar(T d_z, T eps, T beta, T logvar) {
  return d_z * eps * T{0.5} * std::exp(T{0.5} * logvar) + beta * (T{0.5} * (std::exp(logvar) - T{1}));
}

/// Returns the factor of the values of a row of L2 norm `norm` as input: 1 / norm, or 1 without
/// normalization; 0 if the row is empty.
VAECF_HD inline float input_scale(float norm, bool normalized = true) {
  if (norm == 0.0F) return 0.0F;
  return normalized ? 1.0F / norm : 1.0F;
}

/// The threads that process one row together: one CPU thread, or all threads of a CUDA block. All threads
/// must make the same calls with the same n. Each call ends in a barrier and returns the same result to all
/// threads.
///   sum(n, f)   returns f(0) + .. + f(n-1) in f's type and an implementation-defined order; 0 for n = 0
///   max(n, f)   returns the maximum of the floats f(i); -infinity for n = 0
///   each(n, f)  calls f(i) for every i; the calls must be independent of each other
template <class Threads>
concept ThreadGroup = requires(Threads& thread_group, std::int64_t n, float (*f)(std::int64_t),
                               double (*d)(std::int64_t), std::int64_t (*c)(std::int64_t),
                               void (*v)(std::int64_t)) {
  { thread_group.sum(n, f) } -> std::same_as<float>;
  { thread_group.sum(n, d) } -> std::same_as<double>;
  { thread_group.sum(n, c) } -> std::same_as<std::int64_t>;
  { thread_group.max(n, f) } -> std::same_as<float>;
  thread_group.each(n, v);
};

/// A single CPU thread with sum() only, for callers that need no max() or each(). It adds to sixteen partial
/// sums in a fixed order, which the compiler can vectorize and which have a smaller rounding error than one
/// sum.
class SingleThread {
 public:
  template <class F>
  VAECF_HD auto sum(std::int64_t n, F&& f) const {
    using T = std::decay_t<decltype(f(std::int64_t{0}))>;
    T part[width] = {};
    std::int64_t i = 0;
    for (; i + width <= n; i += width) {
      for (int j = 0; j < width; ++j) part[j] += f(i + j);
    }
    for (int j = 0; i + j < n; ++j) part[j] += f(i + j);
    for (int half = width / 2; half > 0; half /= 2) {
      for (int j = 0; j < half; ++j) part[j] += part[j + half];
    }
    return part[0];
  }

 private:
  static constexpr int width = 16;
};

}  // namespace vaecf::math
