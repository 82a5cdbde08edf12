#pragma once

#include <vaecf/comm/distributed_options.hpp>

#include <mpi.h>

#include <string>

namespace vaecf::comm {

/// Throws RunError with `call` and MPI's error string unless `code` is MPI_SUCCESS.
void check_mpi(int code, const char* call);

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
  /// the log. It is the ring if all ranks request it and the library provides it; otherwise the library
  /// chooses. A choice of the user in the environment takes precedence. Collective.
  static std::string choose_all_reduce(AllReduceAlgorithm algorithm);

  /// Returns false after mark_failed(), and while an exception thrown after construction unwinds. Other ranks
  /// may then never join a collective call, including MPI_Finalize.
  bool healthy() const;
  /// Marks MPI as unusable after a failed call.
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
