#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/config/training_config.hpp>
#include <vaecf/device/device.hpp>

#include <cstdint>
#include <span>

namespace vaecf::training {

/// The moments of all weights, or of the shard that a rank owns, and their update. The caller counts the
/// updates, and passes the rule to the device in device::StepParams.
class Optimizer {
 public:
  /// Allocates the moments of `elements` elements. `weight_decay` is lambda of the loss term lambda * sum
  /// ||W||^2. Gradients with a larger L2 norm than `clip_norm` are scaled down to it; 0 disables clipping.
  /// `device` must outlive this object.
  Optimizer(const config::OptimizerOptions& options, double weight_decay, device::Device& device,
            std::int64_t elements, double clip_norm = 0.0)
      : options_(options),
        weight_decay_(weight_decay),
        clip_norm_(clip_norm),
        device_(device),
        first_moment_(device.make_buffer(elements)),
        second_moment_(device.make_buffer(elements)) {}

  /// Returns the rule of update number updates_done + 1, for a gradient summed over `users` users. Its decay
  /// applies to tensors with weight decay only. Adam (Kingma and Ba 2015) in TensorFlow's form: rate =
  /// learning_rate * sqrt(1 - beta2^t) / (1 - beta1^t), t = updates_done + 1, computed in fp64.
  device::UpdateRule rule(std::int64_t updates_done, std::int64_t users) const;

  /// Applies the rule in `step` to the flat elements of `range`, except the tensors `done`, which are updated
  /// already. The moments of element i have index i + moments_offset.
  void update(Range range, std::int64_t moments_offset, const device::Buffer& gradients,
              device::Parameters& parameters, const device::StepState& step, std::span<const int> done = {});

  device::Buffer& first_moment() { return first_moment_; }
  device::Buffer& second_moment() { return second_moment_; }

 private:
  config::OptimizerOptions options_;
  double weight_decay_;
  double clip_norm_;
  device::Device& device_;
  device::Buffer first_moment_;
  device::Buffer second_moment_;
};

}  // namespace vaecf::training
