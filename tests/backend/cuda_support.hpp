#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <vaecf/backend/cuda_facts.hpp>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace vaecf::cuda_test {

inline void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

/// Where there is no GPU the test is skipped, visibly; VAECF_REQUIRE_GPU=1 makes that a failure.
inline void require_gpu() {
  const vaecf::cuda::Availability found = vaecf::cuda::availability();
  if (found.devices > 0) return;
  const char* required = std::getenv("VAECF_REQUIRE_GPU");
  if (required != nullptr && std::string_view(required) == "1") {
    FAIL() << "VAECF_REQUIRE_GPU=1, but " << found.reason;
  }
  GTEST_SKIP() << found.reason;
}

/// Tests that need a GPU.
class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override { require_gpu(); }
};

/// A vector's copy on the device.
template <class T>
class DeviceVector {
 public:
  explicit DeviceVector(const std::vector<T>& values) : size_(values.size()) {
    check(cudaMalloc(reinterpret_cast<void**>(&data_), (size_ + 1) * sizeof(T)));
    check(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  explicit DeviceVector(std::size_t size) : DeviceVector(std::vector<T>(size)) {}
  ~DeviceVector() { cudaFree(data_); }
  DeviceVector(const DeviceVector&) = delete;
  DeviceVector& operator=(const DeviceVector&) = delete;

  T* data() { return data_; }
  /// Waits for the device; errors of kernels show here.
  std::vector<T> host() const {
    check(cudaDeviceSynchronize());
    std::vector<T> values(size_);
    check(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace vaecf::cuda_test
