#include "training/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace vaecf::training {
device::UpdateRule Optimizer::rule(std::int64_t updates_done, std::int64_t users) const {
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

void Optimizer::update(Range range, std::int64_t moments_offset, const device::Buffer& gradients,
                       device::Parameters& parameters, const device::StepState& step,
                       std::span<const int> done) {
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

}  // namespace vaecf::training
