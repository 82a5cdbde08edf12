#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace vaecf::cuda {

/// One GPU. Allocations are zeroed, aligned to 256 bytes, and counted.
class Gpu {
 public:
  /// Makes GPU `index` the current device of the calling thread, the only thread that may use this object
  /// except for make_current(). Throws RunError if the GPU cannot be used.
  explicit Gpu(int index);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  void make_current() const;
  int index() const;
  std::string name() const;  ///< "NVIDIA H100 80GB HBM3"
  std::string id() const;    ///< "GPU-01234567-..."
  std::int64_t free_bytes() const;
  std::int64_t total_bytes() const;
  std::int64_t peak_bytes() const;  ///< peak allocation through this object

  /// Allocates zeroed memory. On failure throws RunError with `what`, the required and the free memory, and
  /// the setting that reduces the requirement.
  void* allocate(std::int64_t bytes, const char* what);
  /// Releases memory of allocate(), given its size.
  void release(void* memory, std::int64_t bytes) noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vaecf::cuda
