#pragma once

#include <vaecf/comm/communicator.hpp>
#include <vaecf/config/config.hpp>
#include <vaecf/device/options.hpp>
#include <vaecf/train/engine.hpp>

#include <memory>
#include <string>
#include <vector>

namespace vaecf::app {

/// Over MPI where a launcher started this process, else a world of one. InputError, RunError.
std::unique_ptr<comm::Communicator> make_communicator(const comm::DistributedOptions& options);

/// Returns "0-3, 8" of 0, 1, 2, 3, 8: ascending numbers.
std::string list_of(const std::vector<int>& numbers);

/// Returns the cores that a process may use, ascending; none if the kernel does not say. 0: this process.
std::vector<int> cores_of_process(int process);

/// Cores that matter to a rank's threads.
struct Cores {
  int bound = 0;      ///< this process may use
  int available = 0;  ///< its launcher may use, on this host
};

/// Asks the kernel about this process and the one that started it.
Cores look_at_cores();

/// Threads of a rank that was asked for no number: its share of the host's cores, at most those it is bound
/// to. More would fight over cores, which costs OpenMP far more than it brings.
int fair_threads(Cores cores, int ranks_on_host);

/// Returns advice, with the flag to give, if the launcher bound ranks so tightly that threads are lost;
/// empty where all is well. `wanted` threads per rank: 0 = a fair share; `running`: what the backend uses.
std::string binding_advice(Cores cores, int ranks_on_host, int wanted, int running);

/// The number of threads that the user fixed, by the configuration or OpenMP's own variable; 0: none.
int wanted_threads(const config::Config& config);

/// The backend's options for this rank's place on its host. Without a number from the user, ranks that share
/// a host's cores share them out.
device::BackendOptions options_for_rank(const config::Config& config, const comm::Communicator& ranks);

/// The device that a rank computes on.
struct RankDevice {
  std::string host;
  std::string device;  ///< "cpu" or "cuda"
  std::string id;      ///< of the device; empty where ranks may share it
};

/// Returns those of all ranks, in their order. Collective.
std::vector<RankDevice> gather_devices(comm::Communicator& communicator, const train::DeviceFacts& mine);

/// Which ranks of a host use one device together: "ranks 0, 2 of node1 share GPU-...; ..."; empty: none do.
std::string shared_devices(const std::vector<RankDevice>& ranks);

/// InputError where some ranks compute on GPUs and others do not, or where ranks share a GPU and `may_share`
/// is false; where they may, what to tell the user about it, else nothing.
std::string check_devices(const std::vector<RankDevice>& ranks, bool may_share);

}  // namespace vaecf::app
