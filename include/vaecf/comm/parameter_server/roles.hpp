#pragma once

#include <vaecf/comm/communicator.hpp>

namespace vaecf::comm {

/// Ranks that compute gradients (workers) and ranks that hold the weights (servers). Servers are the last
/// ranks, so that rank 0, the chief, is a worker. Without a parameter server all ranks are workers.
struct Roles {
  int workers = 1;
  int servers = 0;

  Roles(int workers_, int servers_) : workers(workers_), servers(servers_) {}
  Roles(const DistributedOptions& options, int ranks)
      : Roles(ranks, options.strategy == Strategy::parameter_server ? options.servers : 0) {
    workers -= servers;
  }

  bool is_worker(int rank) const { return rank < workers; }
  int rank_of_server(int server) const { return workers + server; }
  int server_index(int rank) const { return rank - workers; }
};

}  // namespace vaecf::comm
