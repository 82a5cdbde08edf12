#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/platform.hpp"
#ifdef __CUDACC__
#include "cuda_support.cuh"
#endif

/// The contract of src/backend/cuda/platform.hpp, held by the twin and, compiled by nvcc, by the GPU.
namespace vaecf::cuda_test {

#ifdef __CUDACC__
using PlatformTest = GpuTest;
constexpr bool on_gpu = true;
#else
using PlatformTest = ::testing::Test;
constexpr bool on_gpu = false;
#endif

class Platform : public PlatformTest {
 protected:
  void SetUp() override {
    PlatformTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    device_.emplace(0);
    queue_.emplace();
  }

  cuda::Device& device() { return *device_; }
  cuda::Queue& queue() { return *queue_; }

  template <class T>
  cuda::DeviceArray<T> upload(const std::vector<T>& values) {
    cuda::DeviceArray<T> array(device(), static_cast<std::int64_t>(values.size()), "a test");
    queue().copy_in(array.data(), values.data(), array.bytes());
    queue().finish();
    return array;
  }
  template <class T>
  std::vector<T> download(const cuda::DeviceArray<T>& array) {
    std::vector<T> values(static_cast<std::size_t>(array.size()));
    queue().copy_out(values.data(), array.data(), array.bytes());
    queue().finish();
    return values;
  }

 private:
  std::optional<cuda::Device> device_;
  std::optional<cuda::Queue> queue_;
};

}  // namespace vaecf::cuda_test
