#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vaecf::comm {

/// Tag of the messages within one communicator.
constexpr int message_tag = 0;

/// Throws RunError with `call` and MPI's error string unless `code` is MPI_SUCCESS.
void check_mpi(int code, const char* call);
/// Returns `count` as MPI takes it. Throws RunError if it exceeds 2^31 - 1.
int mpi_count(std::size_t count);

// Messages of `count` bytes from and to rank `peer`, whose requests are added to `requests` until wait_all().
inline void post_receive(void* to, int count, int peer, MPI_Comm comm, std::vector<MPI_Request>& requests) {
  check_mpi(MPI_Irecv(to, count, MPI_BYTE, peer, message_tag, comm, &requests.emplace_back()), "MPI_Irecv");
}
inline void post_send(const void* from, int count, int peer, MPI_Comm comm,
                      std::vector<MPI_Request>& requests) {
  check_mpi(MPI_Isend(from, count, MPI_BYTE, peer, message_tag, comm, &requests.emplace_back()), "MPI_Isend");
}
inline void wait_all(std::vector<MPI_Request>& requests) {
  check_mpi(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE),
            "MPI_Waitall");
}

/// Initializes MPI and finalizes it in the destructor, unless it was already initialized. Throws RunError if
/// MPI was finalized before.
class MpiSession {
 public:
  MpiSession();
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// Returns the name and version of the MPI library, such as "Open MPI v4.1.4".
  static std::string library();
  bool threads_may_call_mpi() const { return thread_level_ == MPI_THREAD_MULTIPLE; }
  /// Sets the all-reduce algorithm of communicators that are created later, and returns its description for
  /// the log. It is the ring if the library provides it; otherwise the library chooses. A choice of the user
  /// in the environment takes precedence.
  static std::string choose_all_reduce();

  /// Returns false after mark_failed(), and while an exception thrown after construction unwinds. Other ranks
  /// may then never join a collective call, including MPI_Finalize.
  bool healthy() const;
  void mark_failed() { failed_ = true; }

 private:
  bool owner_ = false;
  bool failed_ = false;
  int thread_level_ = MPI_THREAD_SINGLE;
  int exceptions_at_start_;
};

/// Owns an MPI communicator, and frees it if MpiSession::healthy().
class ScopedComm {
 public:
  explicit ScopedComm(const MpiSession& session) : session_(session) {}
  ~ScopedComm() {
    if (comm != MPI_COMM_NULL && session_.healthy()) MPI_Comm_free(&comm);
  }
  ScopedComm(const ScopedComm&) = delete;
  ScopedComm& operator=(const ScopedComm&) = delete;

  MPI_Comm comm = MPI_COMM_NULL;

 private:
  const MpiSession& session_;
};

}  // namespace vaecf::comm
