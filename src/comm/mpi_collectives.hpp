#pragma once

#include <mpi.h>
#include <vaecf/base/narrow.hpp>
#include <vaecf/base/views.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace vaecf::comm {

/// Messages on their way, and what is left to do when they have arrived.
struct Posted {
  std::vector<MPI_Request> requests;
  std::vector<std::byte> received;  ///< memory that MPI writes to
  std::function<void()> finish;     ///< after the requests

  /// Returns true if all messages have arrived. Throws RunError if MPI fails.
  bool arrived();
  /// Waits for the messages, and finishes.
  void wait();
};

/// Collectives on host memory over one MPI communicator, for one thread at a time. MPI counts in 32 bits:
/// longer messages than `piece_elements` are cut. Sizes have been checked by the caller.
class MpiCollectives {
 public:
  /// `communicator` outlives every call and has no other user.
  MpiCollectives(MPI_Comm communicator, std::int64_t piece_elements);

  void barrier();
  void broadcast(std::span<std::byte> bytes, int root);
  /// In place, as MPI sums.
  void all_reduce(void* values, std::int64_t count, MPI_Datatype type, MPI_Op operation);
  /// In place, each element summed by one rank in rank order, in fp32, and rounded once.
  template <class T>
  void all_reduce_sum(std::span<T> values);
  /// Sums in rank order, in fp32. `part` may be the rank's own place in `values`, which it then overwrites.
  template <class T>
  void reduce_scatter_sum(std::span<const T> values, std::span<T> part);
  /// `part` may be the rank's own place in `all`.
  void all_gather(std::span<const std::byte> part, std::span<std::byte> all);

  /// Do the same, beginning now: they send and receive what they can while the caller computes.
  template <class T>
  void post_all_reduce_sum(std::span<T> values, Posted& to);
  template <class T>
  void post_reduce_scatter_sum(std::span<const T> values, std::span<T> part, Posted& to);
  void post_all_gather(std::span<const std::byte> part, std::span<std::byte> all, Posted& to);

 private:
  /// Sends elements `range` of every part to its owner and receives the own ones of all ranks. Returns the
  /// terms of the sum, in rank order.
  template <class T>
  std::vector<const T*> post_parts(std::span<const T> values, std::int64_t part_size, Range range,
                                   T* received, std::vector<MPI_Request>& requests);
  template <class T>
  void finish_all_reduce(std::span<T> values);
  template <class Gather>
  void for_pieces(std::span<const std::byte> part, std::span<std::byte> all, Gather&& gather);

  MPI_Comm communicator_;
  std::int64_t piece_;
  int rank_ = 0;
  int size_ = 1;
  Posted blocking_;  // memory that is kept between calls
};

}  // namespace vaecf::comm
