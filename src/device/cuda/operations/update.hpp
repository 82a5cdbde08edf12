#pragma once

#include <vaecf/base/host_device.hpp>
#include <vaecf/math/elementwise.hpp>

#include <cstdint>
#include <type_traits>

#include "device/cuda/operations/vec8.hpp"
#include "device/cuda/shared_names.hpp"
#include "device/cuda/step_state.hpp"

namespace vaecf::cuda {

/// The moments and weights that an update changes, and the step's rule for one element. T is the type of the
/// copies; float: no copies.
template <class T>
struct WeightUpdate {
  const DeviceStepState* state;
  const float* gradient_stats;  // number of overflows; squared norm of the gradient, if the rule clips
  float* first;
  float* second;
  std::int64_t moments_offset;  // moments of element i are at i + moments_offset, a multiple of 64
  float* weights;
  T* copies;

  VAECF_HD UpdateRule rule(bool decays) const {
    return state->rule(decays, gradient_stats[1], state->scale.scale);
  }

  VAECF_HD static void element(const UpdateRule& rule, float gradient, float& m, float& v, float& w) {
    const float g = math::step_gradient(gradient, rule.gradient_scale, rule.decay, w);
    switch (rule.kind) {
      case device::OptimizerKind::adam:
        math::adam_element(g, rule.rate, rule.beta1, rule.beta2, rule.epsilon, m, v, w);
        break;
      case device::OptimizerKind::rmsprop:
        math::rmsprop_element(g, rule.rate, rule.beta1, rule.beta2, rule.epsilon, m, v, w);
        break;
      case device::OptimizerKind::sgd:
        math::sgd_element(g, rule.rate, rule.beta1, m, w);
        break;
    }
  }

  VAECF_HD void one(const UpdateRule& rule, float gradient, std::int64_t i) const {
    const std::int64_t m = i + moments_offset;
    element(rule, gradient, first[m], second[m], weights[i]);
    if constexpr (!std::is_same_v<T, float>) copies[i] = from_float<T>(weights[i]);
  }

  /// Updates elements [i, i + 8); i must be a multiple of 8.
  VAECF_HD void eight(const UpdateRule& rule, const Vec8& gradient, std::int64_t i) const {
    const std::int64_t at = i + moments_offset;
    Vec8 m = load_vec8(first + at);
    Vec8 v = load_vec8(second + at);
    Vec8 w = load_vec8(weights + i);
    for (int j = 0; j < 8; ++j) element(rule, gradient.at[j], m.at[j], v.at[j], w.at[j]);
    store_vec8(first + at, m);
    store_vec8(second + at, v);
    store_vec8(weights + i, w);
    if constexpr (!std::is_same_v<T, float>) store_vec8(copies + i, w);
  }
};

/// Updates the weights by eight elements of the gradient, which are not stored. T is the type of the weights'
/// copies.
template <class T>
struct UpdateTable {
  WeightUpdate<T> update;
  const float* gradients;  // the flat buffer
  bool decays;
  VAECF_HD void operator()(const float* to, const Vec8& sum) const {
    update.eight(update.rule(decays), sum, to - gradients);
  }
};

template <class T>
WeightUpdate<T> make_weight_update(const StepState& step, Moments moments, Parameters& parameters) {
  return {.state = step.device_state.data(),
          .gradient_stats = step.gradient_stats.data(),
          .first = moments.first.data(),
          .second = moments.second.data(),
          .moments_offset = moments.offset,
          .weights = parameters.master().data(),
          .copies = reinterpret_cast<T*>(parameters.copy_of(0))};
}

}  // namespace vaecf::cuda
