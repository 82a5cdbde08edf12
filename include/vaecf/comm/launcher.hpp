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

}  // namespace vaecf::comm
