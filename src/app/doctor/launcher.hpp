#pragma once

#include <vaecf/comm/mpi.hpp>

#include <map>
#include <string>
#include <vector>

#include "app/doctor/check_result.hpp"
#include "app/doctor/placement.hpp"

namespace vaecf::app {

/// The mpirun that started this process, if it runs on this host.
struct Launcher {
  std::vector<std::string> command = {};      ///< its command line; empty: none on this host
  std::vector<std::string> environment = {};  ///< its variables: "NAME=VALUE"
  std::string folder = {};                    ///< its working directory
  /// The program of this mpirun, or of its daemon on this host; empty if it is unknown, or another container
  /// has other files.
  std::string program = {};
};
/// Searches the ancestors of this process for an mpirun or its daemon. `root` replaces / in tests.
Launcher query_launcher(const std::string& root = "");

/// The hosts that the user requested for the ranks.
struct RequestedHosts {
  std::string source = {};                ///< the hostfile, option or variable that lists them
  std::map<std::string, int> slots = {};  ///< ranks per host; 0: the list states no number
  std::string ignored = {};               ///< the reason if Open MPI does not read this list; else empty
};
/// Returns the hosts in the command line of the launcher, in Open MPI's variables for a default hostfile, or
/// in Slurm's allocation; none if there is no list, or it cannot be read.
RequestedHosts query_requested_hosts(const Launcher& launcher);
/// Warns if the ranks run on fewer hosts than requested, and more of them on a host than it has slots, or the
/// list states no slots.
CheckResults check_requested_hosts(const std::vector<RankPlacement>& placements,
                                   const RequestedHosts& requested);
/// Warns if Open MPI's mpirun and the loaded library are of different major versions or installations; Open
/// MPI 4 and 5 have libraries of the same name. Returns nothing under other launchers, or if either is
/// unknown.
CheckResults check_mpirun(const Launcher& launcher, const comm::MpiLibrary& library);

}  // namespace vaecf::app
