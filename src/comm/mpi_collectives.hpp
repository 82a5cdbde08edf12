#pragma once

#include <mpi.h>
#include <vaecf/base/narrow.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace vaecf::comm {

/// Blocking collectives on host memory over one MPI communicator, for one thread at a time. MPI counts in 32
/// bits: longer messages than `piece_elements` are cut. Sizes have been checked by the caller.
class MpiCollectives {
 public:
  /// `communicator` outlives every call; nobody else uses it.
  MpiCollectives(MPI_Comm communicator, std::int64_t piece_elements);

  void barrier();
  void broadcast(std::span<std::byte> bytes, int root);
  /// In place, as MPI sums.
  void all_reduce(void* values, std::int64_t count, MPI_Datatype type, MPI_Op operation);
  /// In place, each element summed by one rank in fp32 and rounded once.
  void all_reduce_sum(std::span<Bf16> values);
  /// Sums in rank order. `part` may be the rank's own place in `values`, which it then overwrites.
  void reduce_scatter_sum(std::span<const float> values, std::span<float> part);
  void reduce_scatter_sum(std::span<const Bf16> values, std::span<Bf16> part);
  /// `part` may be the rank's own place in `all`.
  void all_gather(std::span<const std::byte> part, std::span<std::byte> all);

 private:
  template <class T>
  void reduce_scatter(std::span<const T> values, std::span<T> part, std::vector<T>& received);

  MPI_Comm communicator_;
  std::int64_t piece_;
  int rank_ = 0;
  int size_ = 1;
  // Kept between calls: other ranks' terms.
  std::vector<float> received_;
  std::vector<Bf16> received_narrow_;
};

}  // namespace vaecf::comm
