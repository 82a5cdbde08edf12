#pragma once

#include <vaecf/config/config.hpp>

#include <string>
#include <vector>

namespace vaecf::app {

/// Formats ascending numbers as ranges: 0, 1, 2, 3, 8 as "0-3, 8".
std::string format_ranges(const std::vector<int>& numbers);

/// Numbers of cores that limit a rank's threads.
struct CpuAffinity {
  int bound = 0;       ///< cores in this process's affinity mask
  int available = 0;   ///< cores in its parent's affinity mask: those of the job on this host
  double limit = 0.0;  ///< CPU limit of its cgroups in cores; 0: none
};

/// Queries the affinity masks of this process and its parent, and the CPU limit.
CpuAffinity query_affinity();

/// Returns the default number of threads of a rank: the available cores within the CPU limit, divided by the
/// ranks of the host, but at most the cores that the rank is bound to. More threads slow OpenMP down.
int default_threads(CpuAffinity cores, int ranks_on_host);

/// Returns advice, with the mpirun option to use, if the launcher binds ranks to fewer cores than threads
/// could use; empty otherwise. `wanted`: threads per rank, 0 for default_threads(); `running`: threads of the
/// device.
std::string binding_advice(CpuAffinity cores, int ranks_on_host, int wanted, int running);

/// Returns the number of threads set by backend.threads or OMP_NUM_THREADS; 0 if neither is set. Throws
/// InputError if OMP_NUM_THREADS is above device::max_threads.
int requested_threads(const config::Config& config);

}  // namespace vaecf::app
