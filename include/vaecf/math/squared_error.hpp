#pragma once

#include <vaecf/base/host_device.hpp>
#include <vaecf/math/elementwise.hpp>

#include <cstdint>

/// The squared error of one output o = sigmoid(logit) for an input x of 0 or 1, as in autoencoders that
/// reconstruct their input (Sedhain et al., "AutoRec: Autoencoders meet collaborative filtering", WWW 2015,
/// with all items observed). A user's loss is the mean over the items.
namespace vaecf::math {

/// Returns the gradient of (o - x)^2 by the logit; `error` is o - x.
template <class T>
VAECF_HD inline T squared_error_gradient(T error, T output) {
  return sigmoid_backward(T{2} * error, output);
}

}  // namespace vaecf::math
