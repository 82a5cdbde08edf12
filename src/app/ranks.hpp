#pragma once

#include <vaecf/comm/communicator.hpp>
#include <vaecf/config/config.hpp>
#include <vaecf/device/options.hpp>

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

/// Returns the backend options of this rank: with its local rank, and with default_threads() unless the user
/// set the number of threads.
device::BackendOptions backend_options_for_rank(const config::Config& config,
                                                const comm::Communicator& ranks);

/// The device that a rank computes on.
struct RankDevice {
  std::string host;
  device::DeviceKind device;
  std::string id;  ///< unique id of the device; empty if ranks may share it
};

/// Returns the devices of all ranks, by rank. Collective.
std::vector<RankDevice> gather_devices(comm::Communicator& communicator, const device::DeviceFacts& mine);

/// Lists the ranks of a host that use the same device: "ranks 0, 2 of node1 share GPU-...; ..."; empty if
/// none.
std::string shared_devices(const std::vector<RankDevice>& ranks);

/// Checks that the devices of all ranks can work together. Throws InputError if only some ranks use GPUs, or
/// if ranks share a GPU and `may_share` is false. Returns a warning if they share one and may; empty
/// otherwise.
std::string check_devices(const std::vector<RankDevice>& ranks, bool may_share);

}  // namespace vaecf::app
