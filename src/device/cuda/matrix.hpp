#pragma once

#include <cstdint>

#include "device/cuda/platform/gpu.hpp"
#include "device/cuda/platform/matmuls.hpp"
#include "device/cuda/shared_names.hpp"

namespace vaecf::cuda {

/// Makes a matrix, with 16-bit copies unless `dtype` is fp32.
Matrix make_matrix(Gpu& gpu, std::int64_t max_rows, std::int64_t columns, DType dtype);

}  // namespace vaecf::cuda
