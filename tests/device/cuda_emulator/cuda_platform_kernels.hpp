#pragma once

#include <vaecf/device/cuda/platform.hpp>

#include <cstdint>

/// What the tests of cuda::launch run.
namespace vaecf::cuda_test {

/// values[i] = 2 values[i] + 1, so that order shows.
void double_and_add_one(cuda::Queue& queue, cuda::DeviceArray<std::int64_t>& values);

/// Each row (rows, 38) of 37 reversed by way of its block's scratch memory, its sum behind it.
void reverse_rows(cuda::Queue& queue, std::int64_t* rows, std::int64_t count);

}  // namespace vaecf::cuda_test
