#pragma once

#include <vaecf/comm/communicator.hpp>

#include <string>
#include <vector>

#include "app/doctor/check_result.hpp"

namespace vaecf::app {

/// The placement of a rank.
struct RankPlacement {
  std::string host;
  std::vector<int> cores;  ///< cores in its affinity mask, ascending
  int available = 0;       ///< number of cores in its launcher's affinity mask
  int threads = 1;
  double cpu_limit = 0.0;  ///< CPU limit of its cgroups in cores; 0: none
};

/// Gathers the placement of every rank on all ranks. Collective. `threads`: threads of this rank; 0: one per
/// core.
std::vector<RankPlacement> gather_placements(comm::Communicator& communicator, int threads);
/// Checks the distribution of ranks over hosts. `separate_worlds`: the reason if MPI did not join the ranks,
/// else empty.
CheckResults check_launch(const std::vector<RankPlacement>& placements, const std::string& separate_worlds);
/// Checks this rank's binding and threads; `wanted` as in binding_advice.
CheckResult check_binding(const RankPlacement& placement, int ranks_on_host, int wanted);
/// Warns about each host whose ranks have more threads than cores, or than their CPU limit allows.
CheckResults check_oversubscription(const std::vector<RankPlacement>& placements);
/// Runs check_oversubscription() and, on rank 0, check_requested_hosts(). Collective. `threads` as in
/// gather_placements().
CheckResults check_placement(comm::Communicator& communicator, int threads);

}  // namespace vaecf::app
