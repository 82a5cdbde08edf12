#pragma once

#include <mpi.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "pulse.hpp"

namespace vaecf::comm {

/// The ranks of this host: who they are to the operating system, which says when a process is gone, and what
/// each is at, on a board in memory that they share. A rank's place there outlives it.
class Neighbours {
 public:
  enum class State : std::int32_t {
    running,
    left,     ///< in order: its end is no news
    failing,  ///< it ends the run, and has said why
  };
  struct Other {
    int rank = 0;
    int pidfd = -1;  ///< readable once the process is gone; -1 where the system cannot tell
  };

  /// Collective.
  explicit Neighbours(int rank);
  ~Neighbours();
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  void tell(const Pulse& pulse) noexcept;
  void tell(State state) noexcept;
  /// Empty where no memory can be shared: then nobody could know whether a rank left in order.
  const std::vector<Other>& others() const { return others_; }
  State state(std::size_t other) const;
  /// A rank, dead or alive, that told State::failing.
  std::optional<int> failing() const;
  /// What others()[other] was at when it last told.
  RankState last(std::size_t other) const;

  /// Collective: gives the shared memory back. Without it, MPI's end does.
  void part();

 private:
  struct Place;
  void share_board();
  void find_processes(int rank);

  MPI_Comm host_ = MPI_COMM_NULL;
  MPI_Win window_ = MPI_WIN_NULL;
  int local_rank_ = 0;
  int local_size_ = 1;
  std::vector<Place*> board_;  // by local rank; empty without
  std::vector<Other> others_;
  std::vector<Place*> places_;  // of others_
};

}  // namespace vaecf::comm
