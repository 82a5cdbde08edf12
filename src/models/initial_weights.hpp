#pragma once

#include <vaecf/base/host.hpp>
#include <vaecf/base/parallel_for.hpp>
#include <vaecf/base/views.hpp>
#include <vaecf/device/tensor_layout.hpp>
#include <vaecf/models/trainable_model.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace vaecf::models {

/// Sets the elements of tensor `tensor` to value(index), where `index` is row-major in the logical tensor, on
/// all cores of the process.
template <class Value>
void write_tensor(Model& model, int tensor, const device::TensorSpec& spec, const Value& value) {
  constexpr std::int64_t block_elements = 1 << 20;  // 4 MiB
  constexpr std::int64_t chunk = 1 << 14;           // elements of a thread at a time
  const int cores = std::max(1, cores_within(cpu_limit(), static_cast<int>(process_cores())));
  std::vector<float> values;
  const std::int64_t block_rows =
      std::max<std::int64_t>(1, block_elements / std::max<std::int64_t>(1, spec.columns));
  for (std::int64_t begin = 0; begin < spec.rows; begin += block_rows) {
    const Range rows{begin, std::min(spec.rows, begin + block_rows)};
    const std::int64_t elements = rows.size() * spec.columns;
    values.resize(static_cast<std::size_t>(elements));
    const auto threads = std::clamp<std::int64_t>(elements / chunk, 1, cores);
    parallel_for(
        static_cast<int>(threads), {0, elements},
        [&](std::int64_t i) {
          values[i] = value(static_cast<std::uint64_t>(
              spec.logical_index(rows.begin + i / spec.columns, i % spec.columns)));
        },
        NoProgress{}, chunk);
    model.write_rows(tensor, rows, values);
  }
}

/// Returns the number of inputs of a weight's layer. Items and features act as rows of one matrix, and both
/// inputs have L2 norm 1.
inline std::int64_t fan_in(const Model& model, const device::TensorSpec& spec) {
  return spec.logical_rows() + (spec.name.ends_with("/feature_weight") ? model.items() : 0);
}

}  // namespace vaecf::models
