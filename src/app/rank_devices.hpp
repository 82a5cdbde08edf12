#pragma once

#include <vaecf/comm/communicator.hpp>
#include <vaecf/config/config.hpp>
#include <vaecf/device/options.hpp>

#include <string>
#include <vector>

namespace vaecf::app {

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
