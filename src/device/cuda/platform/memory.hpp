#pragma once

#include <cstdint>
#include <memory>

#include "device/cuda/platform/gpu.hpp"

namespace vaecf::cuda {

/// Pinned host memory: the device copies from it at full speed, overlapping with compute, and kernels can
/// read it through the same pointer.
void* allocate_pinned(std::int64_t bytes);
void release_pinned(void* memory) noexcept;

/// Zero-initialized device memory.
template <class T>
class DeviceArray {
 public:
  DeviceArray() = default;
  DeviceArray(Gpu& gpu, std::int64_t size, const char* what) : size_(size) {
    if (size > 0) values_ = {static_cast<T*>(gpu.allocate(bytes(), what)), Release{&gpu, bytes()}};
  }
  T* data() { return values_.get(); }
  const T* data() const { return values_.get(); }
  std::int64_t size() const { return size_; }
  std::int64_t bytes() const { return size_ * static_cast<std::int64_t>(sizeof(T)); }

 private:
  struct Release {
    Gpu* gpu = nullptr;
    std::int64_t bytes = 0;
    void operator()(T* values) const { gpu->release(values, bytes); }
  };
  std::unique_ptr<T, Release> values_;
  std::int64_t size_ = 0;
};

/// Pinned host memory, not initialized.
template <class T>
class PinnedArray {
 public:
  PinnedArray() = default;
  explicit PinnedArray(std::int64_t size) : size_(size) {
    if (size > 0) {
      values_.reset(static_cast<T*>(allocate_pinned(size * static_cast<std::int64_t>(sizeof(T)))));
    }
  }
  T* data() { return values_.get(); }
  const T* data() const { return values_.get(); }
  std::int64_t size() const { return size_; }

 private:
  struct Release {
    void operator()(T* values) const { release_pinned(values); }
  };
  std::unique_ptr<T, Release> values_;
  std::int64_t size_ = 0;
};

}  // namespace vaecf::cuda
