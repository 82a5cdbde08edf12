#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/device/tensor_layout.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/models/trainable_model.hpp>

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace vaecf::models {

/// Returns NaN for all contributions of the items `seen` to `k` items each.
inline std::vector<float> no_contributions(CsrView seen, std::int64_t k) {
  return std::vector<float>(seen.entries() * k, std::numeric_limits<float>::quiet_NaN());
}

/// Returns the contributions of user `row` to item `slot` of the user's list.
inline std::span<float> contributions_of(std::span<float> values, CsrView seen, std::int64_t k,
                                         std::int64_t row, std::int64_t slot) {
  const std::int64_t size = seen.row_size(row);
  return values.subspan((seen.offsets[row] - seen.offsets[0]) * k + slot * size, size);
}

/// Reads all rows of a tensor below /weights, on rank 0.
inline std::vector<float> read_tensor(WeightReader& reader, const device::TensorSpec& tensor) {
  std::vector<float> values(tensor.logical_rows() * tensor.logical_columns());
  reader.read_file([&](const io::CheckpointFile& file) {
    file.read_rows("weights/" + tensor.name, 0, tensor.logical_rows(), values);
  });
  return values;
}

}  // namespace vaecf::models
