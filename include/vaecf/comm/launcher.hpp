#pragma once

#include <optional>
#include <string>

namespace vaecf::comm {

/// Returns the number of processes in this job as reported by the launcher, or nullopt if no launcher is
/// detected or it does not report one.
std::optional<int> launcher_size();
/// Returns the rank of this process as assigned by the launcher, or nullopt if no launcher is detected or it
/// does not report one.
std::optional<int> launcher_rank();
/// Returns a warning to print before MPI_Init if srun started several tasks without PMIx, or an empty string.
/// Most MPI libraries cannot connect such tasks, and their error messages do not name a remedy.
std::string pmi_mismatch_hint();
/// Returns true if mpirun, or srun with more than one task, started this process. SLURM_* variables alone do
/// not count: a plain shell inside a Slurm allocation has them too.
bool launched_by_mpi();

/// Forks a process that kills the parent of this process if it is Open MPI's launcher (mpirun, or its daemon
/// on another host) and still runs after `seconds`. For the end of a run on several hosts. Does nothing under
/// another launcher. Does not block; the forked process outlives this one.
///
/// With Open MPI 4.1.4 and a cut link (tests/cluster/two_hosts_test), mpirun and orted otherwise wait for
/// each other until TCP gives up after a quarter of an hour. TCP keepalive does not help: TCP sends no probes
/// while data are unacknowledged, here the order to end.
void kill_launcher_after(double seconds) noexcept;

}  // namespace vaecf::comm
