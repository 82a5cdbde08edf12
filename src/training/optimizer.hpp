#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/device/device.hpp>
#include <vaecf/training/options.hpp>
#include <vaecf/training/trainer.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vaecf::training {

/// The moments of all weights, or of the shard that a rank owns, and their update. The caller counts the
/// updates, and passes the rule to the device in device::StepParams.
class Optimizer {
 public:
  /// Allocates the moments of `elements` elements. `weight_decay` is lambda of the loss term lambda / 2
  /// * sum ||W||^2, as in PyTorch. Gradients with a larger L2 norm than `clip_norm` are scaled down to it; 0
  /// disables clipping. `device` must outlive this object.
  Optimizer(const OptimizerOptions& options, double weight_decay, device::Device& device,
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
  device::UpdateRule rule(std::int64_t updates_done, std::int64_t users) const {
    double rate = options_.learning_rate;
    const bool adam = options_.type == device::OptimizerKind::adam;
    if (adam) {
      const auto t = static_cast<double>(updates_done + 1);
      rate *= std::sqrt(1.0 - std::pow(options_.beta2, t)) / (1.0 - std::pow(options_.beta1, t));
    }
    device::UpdateRule rule;
    rule.kind = options_.type;
    rule.rate = static_cast<float>(rate);
    rule.beta1 = static_cast<float>(adam ? options_.beta1 : options_.momentum);
    rule.beta2 = static_cast<float>(options_.beta2);
    rule.epsilon = static_cast<float>(options_.epsilon);
    rule.gradient_scale = static_cast<float>(1.0 / static_cast<double>(users));
    rule.decay = static_cast<float>(weight_decay_);
    rule.clip_norm = static_cast<float>(clip_norm_);
    return rule;
  }

  /// Applies the rule in `step` to the flat elements of `range`, except the tensors `done`, which are updated
  /// already. The moments of element i have index i + moments_offset.
  void update(Range range, std::int64_t moments_offset, const device::Buffer& gradients,
              device::Parameters& parameters, const device::StepState& step, std::span<const int> done = {}) {
    const auto& tensors = parameters.layout().tensors;
    std::vector<device::UpdateRange> ranges;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Range part{std::max(range.begin, tensors[i].range.begin),
                       std::min(range.end, tensors[i].range.end)};
      const bool already_updated = std::ranges::find(done, static_cast<int>(i)) != done.end();
      if (!already_updated && part.size() > 0) ranges.push_back({part, tensors[i].spec.decays});
    }
    device_.update(ranges, gradients, {first_moment_, second_moment_, moments_offset}, parameters, step);
  }

  device::Buffer& first_moment() { return first_moment_; }
  device::Buffer& second_moment() { return second_moment_; }
  /// Returns the moments `which`.
  device::Buffer& moment(StateTensor which) {
    return which == StateTensor::first_moment ? first_moment_ : second_moment_;
  }

 private:
  OptimizerOptions options_;
  double weight_decay_;
  double clip_norm_;
  device::Device& device_;
  device::Buffer first_moment_;
  device::Buffer second_moment_;
};

}  // namespace vaecf::training
