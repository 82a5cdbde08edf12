#pragma once

#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/model_export.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// Tensors of a checkpoint, and constants, to be exported.
namespace vaecf::io {

/// Returns the tensor /weights/LAYER/PART of the checkpoint as LAYER.PART, limited to its first `columns`
/// columns (0: all), with each row changed by `change` if there is such a function. `checkpoint` must outlive
/// it. Throws InputError if the checkpoint does not contain it.
ExportTensor stored_tensor(const CheckpointFile& checkpoint, const std::string& layer,
                           const std::string& part, std::int64_t columns = 0,
                           std::function<void(std::span<float> row)> change = nullptr);

/// Returns a tensor with these values; 64-bit integers, fp32, 32-bit integers or bytes.
ExportTensor constant_tensor(const std::string& name, std::vector<std::int64_t> shape,
                             std::vector<std::int64_t> values);
ExportTensor constant_tensor(const std::string& name, std::vector<std::int64_t> shape,
                             std::vector<float> values);
ExportTensor constant_tensor(const std::string& name, std::vector<std::int64_t> shape,
                             std::vector<std::int32_t> values);
ExportTensor constant_tensor(const std::string& name, std::vector<std::int64_t> shape, std::string bytes);

}  // namespace vaecf::io
