#pragma once

#include <cstdint>

#include "device/cuda/platform/platform.hpp"

/// Kernels for the tests of cuda::launch.
namespace vaecf::cuda_test {

/// Computes values[i] = 2 values[i] + 1, which does not commute with other changes.
void double_and_add_one(cuda::Stream& stream, cuda::DeviceArray<std::int64_t>& values);

/// Reverses each row (rows, 38) of 37 elements through its block's scratch memory, and writes the sum after
/// it.
void reverse_rows(cuda::Stream& stream, std::int64_t* rows, std::int64_t count);

}  // namespace vaecf::cuda_test
