#pragma once

#include <vaecf/comm/communicator.hpp>
#include <vaecf/comm/distributed_options.hpp>

#include <memory>
#include <string>

namespace vaecf::comm {

/// The MPI library that this process has loaded.
struct MpiLibrary {
  std::string version;  ///< such as "Open MPI v4.1.4"
  std::string file;     ///< its path; empty if it is unknown
};
/// Queries the MPI library, which need not be initialized.
MpiLibrary mpi_library();

/// Returns the transports that Open MPI uses in this process: "UCX", "libfabric or PSM", or those that it
/// selects from for each pair of ranks, such as "shared memory, TCP". Returns an empty string if MPI has not
/// been initialized or the library provides no such information.
std::string mpi_transports();

/// Makes a communicator of all ranks of MPI_COMM_WORLD for host memory. Initializes MPI unless it is running
/// already. The communicator that initialized MPI finalizes it when it is destroyed, unless an exception is
/// unwinding. In that case other ranks may never join the finalization, and the process should end by abort()
/// or exit. MPI cannot be initialized again after it was finalized. Collective.
///
/// All-reduces are a ring, if the MPI library has one and the environment names no other algorithm. MPI makes
/// no progress by itself, so non-blocking collectives run in wait(). With options.overlap `on` their messages
/// are posted immediately, and every rank sums its own part of an all-reduce.
///
/// Collectives other than broadcasts throw RunError if a count exceeds 2^31 - 1. Throws InputError if a
/// launcher started several processes, but each has an MPI_COMM_WORLD of size 1. The process prints a message
/// and calls _Exit(1) if MPI has not connected the ranks after options.startup_timeout seconds, or if
/// MPI_Finalize takes longer than 60 seconds.
std::unique_ptr<Communicator> make_mpi_communicator(const DistributedOptions& options = {});

}  // namespace vaecf::comm
