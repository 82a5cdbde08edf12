#pragma once

#include <vaecf/backend/options.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/train/engine.hpp>

#include <string>
#include <vector>

namespace vaecf::app {

/// What a rank computes on.
struct RankDevice {
  std::string host;
  std::string device;  ///< "cpu" or "cuda"
  std::string id;      ///< of the device; empty where ranks may share it
};

/// `options` for this rank's place among those of its host. Before anything touches a GPU.
backend::BackendOptions at_rank(backend::BackendOptions options, const comm::Communicator& communicator);

/// Of all ranks, in their order. Every rank calls it; it throws on all or none.
std::vector<RankDevice> gather_devices(comm::Communicator& communicator, const train::Engine& engine);

/// Which ranks of a host use one device together: "ranks 0, 2 of node1 share GPU-...; ..."; empty: none do.
std::string shared_devices(const std::vector<RankDevice>& ranks);

/// InputError where some ranks compute on GPUs and others do not, or where ranks share a GPU and `may_share`
/// is false; where they may, what to tell the user about it, else nothing.
std::string check_devices(const std::vector<RankDevice>& ranks, bool may_share);

}  // namespace vaecf::app
