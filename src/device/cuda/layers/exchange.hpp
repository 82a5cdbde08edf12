#pragma once

#include <cstdint>

#include "device/cuda/device.hpp"

namespace vaecf::cuda {

/// Exchanges rows within the model-parallel group of ranks that share a batch, in the stream of `device`.
/// With one item slice, the functions use the caller's memory and exchange nothing. Memory for all users has
/// S parts of equal size; rows behind the last user are undefined. All functions are collective within the
/// model-parallel group.
class Exchange {
 public:
  Exchange(Device& device, Stream& stream, Scratch& scratch, const Batch& batch)
      : device_(device),
        stream_(stream),
        scratch_(scratch),
        batch_(batch),
        model_parallel_(batch.model_parallel()) {}

  bool alone() const { return model_parallel_.count() == 1; }
  int item_slices() const { return model_parallel_.count(); }

  /// Reserves the memory of gather(), so that nothing grows between two exchanges.
  void reserve_gather(const Matrix& own, DType dtype) { gather_memory(own, dtype); }
  /// Returns the rows of all users, given those of the own users: the values or, in 16 bits, their copy.
  const void* gather(const Matrix& own, DType dtype);

  /// Returns memory for a row of each user, to be summed by start_sum(): that of `own` if there is one item
  /// slice. Sets the rows of `own` to the own users.
  float* sums_memory(Matrix& own);
  /// Starts to sum rows of all users over the item slices; each rank receives those of its own users in
  /// `own`. The stream must wait for the event, which is null if there is one item slice.
  EventHandle start_sum(const float* all, Matrix& own);
  void sum(const float* all, Matrix& own) { stream_.wait_event(start_sum(all, own).event); }

  /// Reserves the memory of gather_values() for `n` values, and returns that of this rank's.
  float* values_memory(std::int64_t n);
  /// Gathers `n` values of each item slice from values_memory(): (S, n), in the order of item slices.
  const float* gather_values(std::int64_t n);
  /// Replaces `n` values by their sums over the item slices, added in the order of item slices.
  void add_over_item_slices(float* values, std::int64_t n);

 private:
  std::int64_t part_size(const Matrix& own) const;
  void* gather_memory(const Matrix& own, DType dtype);

  Device& device_;
  Stream& stream_;
  Scratch& scratch_;
  const Batch& batch_;
  ModelParallelGroup& model_parallel_;
};

}  // namespace vaecf::cuda
