#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/device/device.hpp>
#include <vaecf/train/train_options.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace vaecf::train {

/// Computes the update rule of each step from the options.
class UpdateRules {
 public:
  /// `weight_decay` is lambda of the loss term lambda * sum ||W||^2. Gradients with a larger L2 norm than
  /// `clip_norm` are scaled down to it; 0 disables clipping.
  UpdateRules(const OptimizerOptions& options, double weight_decay, double clip_norm)
      : options_(options), weight_decay_(weight_decay), clip_norm_(clip_norm) {}

  /// Returns the rule of update number updates_done + 1, for a gradient summed over `users` users. Its decay
  /// applies to tensors with weight decay only. Adam (Kingma and Ba 2015) in TensorFlow's form: rate =
  /// learning_rate * sqrt(1 - beta2^t) / (1 - beta1^t), t = updates_done + 1, computed in fp64.
  device::UpdateRule rule(std::int64_t updates_done, std::int64_t users) const;

 private:
  OptimizerOptions options_;
  double weight_decay_;
  double clip_norm_;
};

/// The moments of all weights, or of the shard that a rank owns, and their update. The caller counts the
/// updates, and passes the rule to the device in device::StepParams.
template <class Device>
class Optimizer {
 public:
  using Buffer = typename Device::Buffer;

  /// Allocates the moments of `elements` elements. `device` must outlive this object.
  Optimizer(const OptimizerOptions& options, double weight_decay, Device& device, std::int64_t elements,
            double clip_norm = 0.0)
      : rules_(options, weight_decay, clip_norm),
        device_(device),
        first_moment_(device.make_buffer(elements)),
        second_moment_(device.make_buffer(elements)) {}

  /// Returns UpdateRules::rule(updates_done, users).
  device::UpdateRule rule(std::int64_t updates_done, std::int64_t users) const {
    return rules_.rule(updates_done, users);
  }

  /// Applies the rule in `step` to the flat elements of `range`, except the tensors `done`, which are updated
  /// already. The moments of element i have index i + moments_offset.
  void update(const typename Device::StepState& step, Range range, std::int64_t moments_offset,
              const Buffer& gradients, typename Device::Parameters& parameters,
              std::span<const int> done = {}) {
    const auto& tensors = parameters.layout().tensors;
    std::vector<device::UpdateRange> ranges;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const auto tensor = static_cast<int>(i);
      const Range part{std::max(range.begin, tensors[i].range.begin),
                       std::min(range.end, tensors[i].range.end)};
      const bool already_updated = std::ranges::find(done, tensor) != done.end();
      if (already_updated || part.size() <= 0) continue;
      ranges.push_back({part, tensors[i].spec.decays});
    }
    const device::Moments<Buffer> moments{*first_moment_, *second_moment_, moments_offset};
    if constexpr (requires { device_.update_all(step, ranges, gradients, moments, parameters); }) {
      device_.update_all(step, ranges, gradients, moments, parameters);
    } else {
      for (const auto& [elements, decays] : ranges) {
        device_.update(step, decays, elements, gradients, moments, parameters);
      }
    }
  }

  Buffer& first_moment() { return *first_moment_; }
  Buffer& second_moment() { return *second_moment_; }

 private:
  UpdateRules rules_;
  Device& device_;
  std::unique_ptr<Buffer> first_moment_;
  std::unique_ptr<Buffer> second_moment_;
};

}  // namespace vaecf::train
