#pragma once

#include <vaecf/base/host_device.hpp>

#include <cmath>
#include <cstdint>

/// Formulas of ELSA (Vancura et al., "Scalable Linear Shallow Autoencoder for Collaborative Filtering",
/// RecSys 2022): A contains the rows of W divided by their L2 norms, and the prediction for a user x is y = x
/// A A' - x.
namespace vaecf::math {

/// The loss term of one user, 1 - cos(x, y), and its derivatives.
struct CosineLoss {
  double loss = 0.0;
  double d_norm = 0.0;  ///< derivative by ||h||^2
  double d_q = 0.0;     ///< derivative by q
};

/// Returns the loss of a user with `items` items, without computing y. With h = x A / sqrt(items), the square
/// `norm` = ||h||^2 and `product` = h' A'A h,
///   cos(x, y) = (||h||^2 - 1) / sqrt(q),   q = ||y||^2 / items = h' A'A h - 2 ||h||^2 + 1.
/// The cosine is 0, without gradient, if y is 0 except for rounding errors. The loss of a user without items
/// is 0.
VAECF_HD inline CosineLoss cosine_loss(std::int64_t items, double norm, double product) {
  if (items == 0) return {};
  const double q = product - 2.0 * norm + 1.0;
  if (q <= 1e-6 * (product + 2.0 * norm + 1.0)) return {1.0, 0.0, 0.0};
  const double root = std::sqrt(q);
  return {1.0 - (norm - 1.0) / root, -1.0 / root, (norm - 1.0) / (2.0 * q * root)};
}

/// Returns the gradient of the loss by an element of h, given that element of h and of A'A h.
VAECF_HD inline float cosine_gradient(const CosineLoss& of, float h, float product) {
  return static_cast<float>(2.0 * h * (of.d_norm - 2.0 * of.d_q) + 2.0 * of.d_q * product);
}

/// Returns the reciprocal of a row's L2 norm from its sum of squares; norms below 1e-12 count as 1e-12.
VAECF_HD inline float inverse_norm(float squares) {
  return 1.0F / std::fmax(std::sqrt(squares), 1e-12F);
}

/// Returns the gradient by an element w of a row of W, from the gradient `d` by that element of A. `inverse`
/// is the row's inverse_norm(), and `dot` is the sum of w d over the row.
VAECF_HD inline float normalization_gradient(float d, float w, float inverse, float dot) {
  return inverse * (d - w * inverse * inverse * dot);
}

}  // namespace vaecf::math
