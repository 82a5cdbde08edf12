#include "neighbours.hpp"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <new>

#include "mpi_check.hpp"

namespace vaecf::comm {
namespace {

/// A process as other processes may know it: its number means something within its pid namespace only.
struct Process {
  std::int64_t rank = 0;
  std::int64_t pid = 0;
  std::uint64_t pid_namespace = 0;
  std::uint64_t namespace_device = 0;

  static Process self(int rank) {
    struct stat space {};
    if (stat("/proc/self/ns/pid", &space) != 0) return {rank, getpid(), 0, 0};
    return {rank, getpid(), space.st_ino, space.st_dev};
  }
  bool sees(const Process& other) const {
    return pid_namespace != 0 && pid_namespace == other.pid_namespace &&
           namespace_device == other.namespace_device;
  }
};

int open_process([[maybe_unused]] std::int64_t pid) {
#ifdef SYS_pidfd_open
  return static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0U));
#else
  return -1;
#endif
}

}  // namespace

struct Neighbours::Place {
  std::atomic<State> state = State::running;
  std::atomic<Phase> phase = Phase::setup;
  std::atomic<std::int64_t> step = 0;
  static_assert(std::atomic<State>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free,
                "other processes read it");
};

Neighbours::Neighbours(int rank) {
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host_),
            "MPI_Comm_split_type");
  check_mpi(MPI_Comm_rank(host_, &local_rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(host_, &local_size_), "MPI_Comm_size");
  if (local_size_ == 1) return;
  share_board();
  find_processes(rank);
}

void Neighbours::share_board() {
  void* mine = nullptr;
  int shared = MPI_Win_allocate_shared(sizeof(Place), 1, MPI_INFO_NULL, host_, static_cast<void*>(&mine),
                                       &window_) == MPI_SUCCESS
                   ? 1
                   : 0;
  if (shared == 1) new (mine) Place;
  // Also the moment from which on all places can be read.
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &shared, 1, MPI_INT, MPI_MIN, host_), "MPI_Allreduce");
  if (shared == 0) return;
  for (int r = 0; r < local_size_; ++r) {
    MPI_Aint bytes = 0;
    int unit = 0;
    void* place = nullptr;
    check_mpi(MPI_Win_shared_query(window_, r, &bytes, &unit, static_cast<void*>(&place)),
              "MPI_Win_shared_query");
    board_.push_back(static_cast<Place*>(place));
  }
}

void Neighbours::find_processes(int rank) {
  const Process self = Process::self(rank);
  std::vector<Process> all(static_cast<std::size_t>(local_size_));
  check_mpi(MPI_Allgather(&self, sizeof(Process), MPI_BYTE, all.data(), sizeof(Process), MPI_BYTE, host_),
            "MPI_Allgather");
  if (board_.empty()) return;
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].rank == rank) continue;
    const int pidfd = self.sees(all[r]) ? open_process(all[r].pid) : -1;
    others_.push_back({static_cast<int>(all[r].rank), pidfd});
    places_.push_back(board_[r]);
  }
}

Neighbours::~Neighbours() {
  for (const Other& other : others_) {
    if (other.pidfd >= 0) close(other.pidfd);
  }
}

void Neighbours::tell(const Pulse& pulse) noexcept {
  if (board_.empty()) return;
  Place& place = *board_[static_cast<std::size_t>(local_rank_)];
  place.phase.store(pulse.phase, std::memory_order_relaxed);
  place.step.store(pulse.step, std::memory_order_relaxed);
}

void Neighbours::tell(State state) noexcept {
  if (!board_.empty()) board_[static_cast<std::size_t>(local_rank_)]->state.store(state);
}

Neighbours::State Neighbours::state(std::size_t other) const {
  return places_.at(other)->state.load();
}

std::optional<int> Neighbours::failing() const {
  for (std::size_t i = 0; i < others_.size(); ++i) {
    if (state(i) == State::failing) return others_[i].rank;
  }
  return std::nullopt;
}

RankState Neighbours::last(std::size_t other) const {
  RankState state;
  state.rank = others_.at(other).rank;
  state.phase = places_[other]->phase.load(std::memory_order_relaxed);
  state.step = places_[other]->step.load(std::memory_order_relaxed);
  return state;
}

void Neighbours::part() {
  places_.clear();
  board_.clear();
  if (window_ != MPI_WIN_NULL) check_mpi(MPI_Win_free(&window_), "MPI_Win_free");
  if (host_ != MPI_COMM_NULL) check_mpi(MPI_Comm_free(&host_), "MPI_Comm_free");
}

}  // namespace vaecf::comm
