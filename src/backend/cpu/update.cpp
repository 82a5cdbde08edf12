#include <vector>

#include "cpu_backend.hpp"
#include "parallel.hpp"
#include "vector_kernels.hpp"

namespace vaecf::cpu {

void CpuBackend::update(const backend::StepState& step, bool decays, Range range,
                        const backend::FloatBuffer& gradients, backend::FloatBuffer& first_moment,
                        backend::FloatBuffer& second_moment, backend::Parameters& parameters) {
  const backend::UpdateRule rule = cpu(step).rule(decays);
  CpuParameters& p = cpu(parameters);
  on_ranges(threads_, range.size(), 1024, [&](int, Range part) {
    const std::int64_t i = range.begin + part.begin;
    update_elements(rule, gradients.data() + i, first_moment.data() + i, second_moment.data() + i,
                    p.master().data() + i, p.shadow_of(i), part.size());
  });
}

void CpuBackend::update_part(const backend::StepState& step, bool decays, Range range,
                             const backend::FloatBuffer& gradients, backend::FloatBuffer& first_moment,
                             backend::FloatBuffer& second_moment, backend::FloatBuffer& weights) {
  const backend::UpdateRule rule = cpu(step).rule(decays);
  on_ranges(threads_, range.size(), 1024, [&](int, Range part) {
    const std::int64_t i = range.begin + part.begin;
    update_elements(rule, gradients.data() + i, first_moment.data() + i, second_moment.data() + i,
                    weights.data() + i, nullptr, part.size());
  });
}

double CpuBackend::sum_of_squares(const backend::Parameters& parameters, int tensor) {
  const Range range = parameters.layout().tensors[tensor].range;
  const float* values = cpu(parameters).weights(tensor);
  std::vector<double> part_sums(static_cast<std::size_t>(threads_), 0.0);
  on_ranges(threads_, range.size(), 1024, [&](int thread, Range part) {
    part_sums[thread] = vaecf::cpu::sum_of_squares(values + part.begin, part.size());
  });
  double sum = 0.0;
  for (const double value : part_sums) sum += value;
  return sum;
}

}  // namespace vaecf::cpu
