#pragma once

#include <vaecf/comm/communicator.hpp>

namespace vaecf::comm {

/// Who computes gradients and who holds what: with all-reduce every rank is a worker; with a parameter server
/// the last ranks are servers, so that rank 0, the chief, is a worker.
struct Roles {
  int workers = 1;
  int servers = 0;

  Roles(int workers_, int servers_) : workers(workers_), servers(servers_) {}
  Roles(const DistributedOptions& options, int ranks)
      : Roles(ranks, options.strategy == "parameter_server" ? options.servers : 0) {
    workers -= servers;
  }

  bool works(int rank) const { return rank < workers; }
  int rank_of_server(int server) const { return workers + server; }
  /// Which of the servers `rank` is.
  int server_of(int rank) const { return rank - workers; }
};

}  // namespace vaecf::comm
