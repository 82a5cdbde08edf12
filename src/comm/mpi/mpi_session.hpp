#pragma once

#include <vaecf/comm/distributed_options.hpp>

#include <mpi.h>

#include <string>

namespace vaecf::comm {

/// Throws RunError naming `call` and MPI's own sentence unless `code` is MPI_SUCCESS.
void check_mpi(int code, const char* call);

/// MPI's life in this process: started here and finalized by the destructor, unless it already ran before.
class MpiSession {
 public:
  MpiSession();
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// "Open MPI v4.1.4"
  static std::string library();
  bool threads_may_call_mpi() const { return thread_level_ == MPI_THREAD_MULTIPLE; }
  /// Chooses how communicators made from here on sum: "ring" where all ranks ask for it and the library has
  /// it, else the library's choice; what the user set in the environment stays. Collective. Returns what it
  /// came to, for the log.
  static std::string choose_all_reduce(AllReduceAlgorithm algorithm);

  /// False while an exception thrown after the start unwinds, or after give_up(): other ranks may never come
  /// to a collective call, finalization included.
  bool healthy() const;
  void give_up() { given_up_ = true; }

 private:
  bool owner_ = false;
  bool given_up_ = false;
  int thread_level_ = MPI_THREAD_SINGLE;
  int exceptions_at_start_;
};

/// A communicator of our own, freed unless MPI's peers may be gone.
class OwnComm {
 public:
  explicit OwnComm(const MpiSession& session) : session_(session) {}
  ~OwnComm() {
    if (comm != MPI_COMM_NULL && session_.healthy()) MPI_Comm_free(&comm);
  }
  OwnComm(const OwnComm&) = delete;
  OwnComm& operator=(const OwnComm&) = delete;

  MPI_Comm comm = MPI_COMM_NULL;

 private:
  const MpiSession& session_;
};

}  // namespace vaecf::comm
