#pragma once

#include <cstdint>
#include <memory>

#include "device/cuda/platform/gpu.hpp"
#include "device/cuda/platform/stream.hpp"

namespace vaecf::cuda {

/// A sparse fp32 matrix (rows, columns) in compressed row form, in device memory.
struct SparseRows {
  const std::int32_t* offsets = nullptr;  ///< (rows + 1), starting at 0
  const std::int32_t* indices = nullptr;  ///< (entries) columns, ascending in each row
  const float* values = nullptr;          ///< (entries)
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t entries = 0;
};

/// Products of a sparse and a dense matrix.
class SparseProducts {
 public:
  /// `deterministic`: uses only an algorithm whose sums do not depend on timing.
  SparseProducts(Gpu& gpu, bool deterministic);
  ~SparseProducts();
  /// Queues c (a.rows, n) = a b for the row-major matrices b (a.columns, n) and c with `ldb` and `ldc`
  /// elements between rows. All sizes must be at least 1. Not during a capture, since it may allocate memory.
  void run(Stream& stream, const SparseRows& a, const float* b, std::int64_t ldb, std::int64_t n, float* c,
           std::int64_t ldc);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vaecf::cuda
