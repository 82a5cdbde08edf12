#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace vaecf {

/// Returns `bytes` of zeroed memory, aligned to at least 64 bytes. Large allocations request huge pages,
/// because weights, moments and logits are read with strides that exceed the TLB reach of small pages.
void* allocate_zeroed(std::size_t bytes);
/// Releases memory of allocate_zeroed(), given its size.
void deallocate(void* memory, std::size_t bytes);

/// Array in memory of allocate_zeroed().
template <class T>
class AlignedArray {
 public:
  AlignedArray() = default;
  explicit AlignedArray(std::int64_t size) { resize(size); }
  /// Changes the size. If the size changes, the contents are lost and all elements are zero.
  void resize(std::int64_t size) {
    if (size == size_) return;
    const std::size_t bytes = static_cast<std::size_t>(size) * sizeof(T);
    values_.reset();  // before the new allocation, to limit peak memory
    size_ = 0;
    values_ = {size == 0 ? nullptr : static_cast<T*>(allocate_zeroed(bytes)), Deallocate{bytes}};
    size_ = size;
  }
  /// Makes the array at least `size` elements long. If it grows, the contents are lost.
  void reserve(std::int64_t size) {
    if (size > size_) resize(size);
  }
  T* data() { return values_.get(); }
  const T* data() const { return values_.get(); }
  T& operator[](std::int64_t i) { return values_.get()[i]; }
  const T& operator[](std::int64_t i) const { return values_.get()[i]; }
  std::int64_t size() const { return size_; }

 private:
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
  struct Deallocate {
    std::size_t bytes = 0;
    void operator()(T* p) const { deallocate(p, bytes); }
  };
  std::unique_ptr<T[], Deallocate> values_;
  std::int64_t size_ = 0;
};

}  // namespace vaecf
