#include <algorithm>
#include <numeric>
#include <vector>

#include "device/cpu/device.hpp"
#include "device/cpu/kernels/vector_kernels.hpp"
#include "device/cpu/parallel.hpp"

namespace vaecf::cpu {
namespace {

/// Returns the sum of squares, in blocks of a fixed size, so that the bits do not depend on the number of
/// threads.
double sum_in_blocks(int threads, const float* values, std::int64_t n) {
  constexpr std::int64_t block = 1 << 16;
  const std::int64_t blocks = (n + block - 1) / block;
  std::vector<double> sums(static_cast<std::size_t>(blocks), 0.0);
  parallel_for(threads, blocks, [&](int, std::int64_t b) {
    sums[b] = sum_of_squares(values + b * block, std::min(block, n - b * block));
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace

void Device::update(std::span<const device::UpdateRange> ranges, const Buffer& gradients,
                    device::Moments moments, Parameters& parameters, const device::StepState& step) {
  for (const auto& [range, decays] : ranges) {
    const device::UpdateRule rule = own<StepState>(step).rule(decays);
    parallel_for_static(threads_, range.size(), 1024, [&, begin = range.begin](int, Range part) {
      const std::int64_t i = begin + part.begin;
      update_elements(rule, gradients.data() + i, moments.first.data() + (i + moments.offset),
                      moments.second.data() + (i + moments.offset), parameters.master().data() + i,
                      parameters.copy_of(i), part.size());
    });
  }
}

void Device::accumulate_gradient_stats(const Buffer& gradients, Range range, device::StepState& any_step) {
  auto& step = own<StepState>(any_step);
  const device::UpdateRule& rule = step.params.rule;
  if (rule.clip_norm <= 0.0F) return;
  const double scale = rule.gradient_scale;
  step.squares += scale * scale * sum_in_blocks(threads_, gradients.data() + range.begin, range.size());
  step.gradient_stats.data()[1] = static_cast<float>(step.squares);
}

double Device::sum_of_squares(const Parameters& parameters, int tensor) {
  const Range range = parameters.layout().tensors[tensor].range;
  return sum_in_blocks(threads_, parameters.weights(tensor), range.size());
}

}  // namespace vaecf::cpu
