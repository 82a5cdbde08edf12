#pragma once

#include <cstdint>

#include "device/cuda/device.hpp"

namespace vaecf::cuda {

/// Exchanges rows within the group of ranks that share a batch, in the stream of `device`. With one slice,
/// the functions use the caller's memory and exchange nothing. Memory for all users has S parts of equal
/// size; rows behind the last user are undefined. All functions are collective within the group.
class Exchange {
 public:
  Exchange(Device& device, Stream& stream, Scratch& scratch, const Batch& batch)
      : device_(device), stream_(stream), scratch_(scratch), batch_(batch), slices_(batch.slices()) {}

  bool alone() const { return slices_.count() == 1; }
  int slices() const { return slices_.count(); }

  /// Reserves the memory of gather(), so that nothing grows between two exchanges.
  void reserve_gather(const Matrix& own, DType dtype) { gather_memory(own, dtype); }
  /// Returns the rows of all users, given those of the own users: the values or, in 16 bits, their copy.
  const void* gather(const Matrix& own, DType dtype);

  /// Returns memory for a row of each user, to be summed by start_sum(): that of `own` if there is one slice.
  /// Sets the rows of `own` to the own users.
  float* sums_memory(Matrix& own);
  /// Starts to sum rows of all users over the slices; each rank receives those of its own users in `own`.
  /// The stream must wait for the event, which is null if there is one slice.
  EventHandle start_sum(const float* all, Matrix& own);
  void sum(const float* all, Matrix& own) { stream_.wait_event(start_sum(all, own).event); }

  /// Reserves the memory of gather_values() for `n` values, and returns that of this rank's.
  float* values_memory(std::int64_t n);
  /// Gathers `n` values of each slice from values_memory(): (S, n), in the order of slices.
  const float* gather_values(std::int64_t n);
  /// Replaces `n` values by their sums over the slices, added in the order of slices.
  void add_over_slices(float* values, std::int64_t n);

 private:
  std::int64_t part_size(const Matrix& own) const;
  void* gather_memory(const Matrix& own, DType dtype);

  Device& device_;
  Stream& stream_;
  Scratch& scratch_;
  const Batch& batch_;
  ItemSlices& slices_;
};

}  // namespace vaecf::cuda
