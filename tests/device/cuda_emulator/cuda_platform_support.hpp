#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device/cuda/platform/gpu.hpp"
#include "device/cuda/platform/memory.hpp"
#include "device/cuda/platform/stream.hpp"

/// The contract of src/device/cuda/platform, compiled once for the host emulation and the GPU.
namespace vaecf::cuda_test {

// Returns whether the platform is a GPU; defined in cuda_platform_emulated.cpp or cuda_platform_gpu.cpp.
bool on_gpu();
/// Skips the test, or fails it, if the platform is not available.
void require_platform();

// Kernels for the tests of cuda::launch; defined in cuda_platform_kernels.cpp.

/// Computes values[i] = 2 values[i] + 1, which does not commute with other changes.
void double_and_add_one(cuda::Stream& stream, cuda::DeviceArray<std::int64_t>& values);

/// Reverses each row (rows, 38) of 37 elements through its block's scratch memory, and writes the sum after
/// it.
void reverse_rows(cuda::Stream& stream, std::int64_t* rows, std::int64_t count);

class Platform : public ::testing::Test {
 protected:
  void SetUp() override {
    require_platform();
    if (IsSkipped() || HasFatalFailure()) return;
    gpu_.emplace(0);
    stream_.emplace();
  }

  cuda::Gpu& gpu() { return *gpu_; }
  cuda::Stream& stream() { return *stream_; }

  template <class T>
  cuda::DeviceArray<T> upload(const std::vector<T>& values) {
    cuda::DeviceArray<T> array(gpu(), static_cast<std::int64_t>(values.size()), "a test");
    stream().copy_h2d(array.data(), values.data(), array.bytes());
    stream().synchronize();
    return array;
  }
  template <class T>
  std::vector<T> download(const cuda::DeviceArray<T>& array) {
    std::vector<T> values(static_cast<std::size_t>(array.size()));
    stream().copy_d2h(values.data(), array.data(), array.bytes());
    stream().synchronize();
    return values;
  }

 private:
  std::optional<cuda::Gpu> gpu_;
  std::optional<cuda::Stream> stream_;
};

}  // namespace vaecf::cuda_test
