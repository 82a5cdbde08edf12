#include "train/step/optimizer.hpp"

#include <cmath>

namespace vaecf::train {
device::UpdateRule UpdateRules::rule(std::int64_t updates_done, std::int64_t users) const {
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
  rule.decay = static_cast<float>(2.0 * weight_decay_);
  rule.clip_norm = static_cast<float>(clip_norm_);
  return rule;
}

}  // namespace vaecf::train
