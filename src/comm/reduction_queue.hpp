#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <span>

namespace vaecf::comm {

/// In-place sums of `values` in pieces, in order.
void all_reduce_pieces(void* values, std::int64_t count, MPI_Datatype type, MPI_Op operation,
                       std::int64_t piece_elements, MPI_Comm communicator);

/// Sums that proceed beside compute. MPI makes no progress by itself, so a thread of our own runs blocking
/// calls, first come first served, on a communicator that nobody else uses. It is born with the first sum.
class ReductionQueue {
 public:
  ReductionQueue(MPI_Comm communicator, std::int64_t piece_elements);
  /// Finishes what was pushed, then joins the thread.
  ~ReductionQueue();
  ReductionQueue(const ReductionQueue&) = delete;
  ReductionQueue& operator=(const ReductionQueue&) = delete;

  /// Returns the sum's number, counted from 0.
  std::int64_t push(std::span<float> values);
  /// Rethrows what the thread threw.
  void wait(std::int64_t number);
  /// Makes the destructor leave a thread alone that is inside MPI, where it may stay for ever.
  void abandon();

 private:
  struct State;
  static void work(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;  // also held by the thread, which may outlive us
};

}  // namespace vaecf::comm
