#pragma once

#include <vaecf/base/half_precision.hpp>

#include <cstdint>
#include <memory>
#include <utility>

namespace vaecf::device {

/// Zero-initialized memory of `size()` elements that a device made, which must outlive it. The host may
/// access the memory of a CPU device only.
template <class T>
class Array {
 public:
  Array() = default;
  /// Takes over `owner`, a device's own array with data() and size().
  template <class Owner>
  explicit Array(Owner owner) {
    const auto held = std::make_shared<Owner>(std::move(owner));
    memory_ = std::shared_ptr<T>(held, held->data());
    size_ = held->size();
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  Array(Array&& other) noexcept : memory_(std::move(other.memory_)), size_(std::exchange(other.size_, 0)) {}
  Array& operator=(Array&& other) noexcept {
    memory_ = std::move(other.memory_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }
  ~Array() = default;

  T* data() { return memory_.get(); }
  const T* data() const { return memory_.get(); }
  std::int64_t size() const { return size_; }

 private:
  std::shared_ptr<T> memory_;
  std::int64_t size_ = 0;
};

using Buffer = Array<float>;     ///< flat values: weights, gradients, moments
using Bf16Buffer = Array<Bf16>;  ///< flat values to be communicated in bf16

}  // namespace vaecf::device
