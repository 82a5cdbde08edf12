#include "device/cpu/layers/exchange.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "device/cpu/kernels/vector_kernels.hpp"

namespace vaecf::cpu {

float* rows_of_all_users(const Batch& batch, Matrix& own, AlignedArray<float>& memory) {
  const ModelParallelGroup& model_parallel = batch.model_parallel();
  own.set_rows(batch.own().size());
  if (model_parallel.count() == 1) return own.row(0);
  memory.reserve(model_parallel.count() * model_parallel.part_rows(batch.users()) * own.columns());
  return memory.data();
}

void sum_to_owners(const Batch& batch, const float* all, Matrix& own) {
  ModelParallelGroup& model_parallel = batch.model_parallel();
  if (model_parallel.count() == 1) return;
  const std::span<float> part = first_rows(own, model_parallel.part_rows(batch.users()));
  model_parallel.reduce_scatter({all, part.size() * static_cast<std::size_t>(model_parallel.count())}, part,
                                {});
}

const float* gather_from_owners(const Batch& batch, const Matrix& own, AlignedArray<float>& memory) {
  ModelParallelGroup& model_parallel = batch.model_parallel();
  if (model_parallel.count() == 1) return own.row(0);
  const std::span<const float> part = first_rows(own, model_parallel.part_rows(batch.users()));
  const std::int64_t size = model_parallel.count() * std::ssize(part);
  memory.reserve(size);
  model_parallel.all_gather(part, {memory.data(), static_cast<std::size_t>(size)}, {});
  return memory.data();
}

void sum_over_item_slices(ModelParallelGroup& model_parallel, std::span<float> values,
                          AlignedArray<float>& memory) {
  if (model_parallel.count() == 1) return;
  const std::int64_t size = std::ssize(values);
  memory.reserve(model_parallel.count() * size);
  model_parallel.all_gather(values, {memory.data(), static_cast<std::size_t>(model_parallel.count() * size)},
                            {});
  std::copy_n(memory.data(), size, values.data());
  for (int s = 1; s < model_parallel.count(); ++s) add(values.data(), memory.data() + s * size, size);
}

void merge_over_item_slices(ModelParallelGroup& model_parallel, std::span<math::SoftmaxPart<double>> users) {
  if (model_parallel.count() == 1) return;
  const std::size_t n = users.size();
  const auto count = static_cast<std::size_t>(model_parallel.count());
  std::vector<float> part;
  for (const auto& user : users) part.insert(part.end(), {user.maximum, static_cast<float>(user.sum)});
  std::vector<float> all(count * part.size());
  model_parallel.all_gather(part, all, {});
  for (std::size_t u = 0; u < n; ++u) {
    const auto pair = [&](std::size_t s) {
      const float* values = all.data() + 2 * (s * n + u);
      return math::SoftmaxPart<double>{values[0], values[1]};
    };
    math::SoftmaxPart<double> merged;
    for (std::size_t s = 0; s < count; ++s) merged.maximum = std::fmax(merged.maximum, pair(s).maximum);
    for (std::size_t s = 0; s < count; ++s) merged.sum += pair(s).sum_below(merged.maximum);
    users[u] = merged;
  }
}

}  // namespace vaecf::cpu
