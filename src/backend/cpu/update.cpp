#include <algorithm>
#include <vector>

#include "cpu_backend.hpp"
#include "parallel.hpp"
#include "vector_kernels.hpp"

namespace vaecf::cpu {

void CpuBackend::update(const backend::UpdateRule& rule, Range range, const backend::FloatBuffer& gradients,
                        backend::FloatBuffer& first_moment, backend::FloatBuffer& second_moment,
                        backend::Parameters& parameters) {
  CpuParameters& p = cpu(parameters);
  const Range shadowed = p.shadowed();
  const bool has_shadow = range.begin >= shadowed.begin && range.end <= shadowed.end && shadowed.size() > 0;
  // Small enough that the weights are still in cache when the bf16 copy is made of them.
  constexpr std::int64_t chunk = 2048;
  on_ranges(threads_, range.size(), chunk, [&](int, Range part) {
    for (std::int64_t i = range.begin + part.begin; i < range.begin + part.end; i += chunk) {
      const std::int64_t n = std::min(chunk, range.begin + part.end - i);
      update_elements(rule, gradients.data() + i, first_moment.data() + i, second_moment.data() + i,
                      p.master().data() + i, has_shadow ? p.shadow().data() + (i - shadowed.begin) : nullptr,
                      n);
    }
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
