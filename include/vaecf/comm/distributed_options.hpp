#pragma once

#include <vaecf/base/enum_names.hpp>

#include <cstdint>

namespace vaecf::comm {

class Communicator;

enum class StrategyKind { allreduce, parameter_server };
/// The all-reduce algorithm. With `automatic` NCCL chooses it; over MPI it is the ring in both cases, whose
/// order of summation does not change with the size of a message.
enum class AllReduceAlgorithm { ring, automatic };
/// replicated: each rank updates all weights. sharded: each rank updates its shard of the weights and stores
/// the optimizer state of that shard only (ZeRO stage 1).
enum class OptimizerPlacement { replicated, sharded };
/// The communication data type of gradients, and of weights with a sharded optimizer.
enum class CommDtype { fp32, bf16 };
enum class ServerUpdates { synchronous, asynchronous };

/// Limits of DistributedOptions::bucket_mib.
inline constexpr double min_bucket_mib = 0.001;
inline constexpr double max_bucket_mib = 1024.0;

/// Values of DistributedOptions::item_slices beside a number.
inline constexpr std::int64_t all_item_slices = 0;         ///< one item slice per rank
inline constexpr std::int64_t automatic_item_slices = -1;  ///< training::plan_item_slices()

/// The configuration of distributed training (keys of section `distributed`).
struct DistributedOptions {
  StrategyKind strategy = StrategyKind::allreduce;
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::automatic;
  OptimizerPlacement optimizer = OptimizerPlacement::replicated;
  CommDtype comm_dtype = CommDtype::fp32;
  double bucket_mib = 0.0;             ///< size of a gradient bucket in MiB; 0: automatic, see bucket_bytes()
  std::int64_t item_slices = 1;        ///< ranks that share the items, or one of the values above
  Toggle overlap = Toggle::automatic;  ///< reduce gradients during the backward pass; automatic: on GPUs only
  int servers = 1;                     ///< number of servers, which are the last ranks (parameter_server)
  ServerUpdates updates = ServerUpdates::synchronous;  ///< update mode of the servers (parameter_server)
  std::int64_t staleness = 4;          ///< maximum steps of a worker ahead of the slowest one (asynchronous)
  double stall_warning = 60.0;         ///< seconds without progress until a stalled rank is reported
  double timeout = 300.0;              ///< seconds without progress until the run is aborted
  double startup_timeout = 3600.0;     ///< timeout during rendezvous, setup and loading, in seconds
  double validation_timeout = 3600.0;  ///< timeout in validation, test, benchmark and checkpoint writing
};

/// Returns the size in bytes of the buckets in which `ranks` reduce fp32 gradients. The automatic size
/// depends on where the ranks run: it is 4 MiB over MPI, whose transfers are slow, and 32 MiB between the
/// GPUs of a host or 64 MiB between those of several hosts, whose latencies would exceed the transfer of
/// less.
double bucket_bytes(const DistributedOptions& options, const Communicator& ranks);

/// The counts of workers, which compute gradients, and servers, which store and update the weights. Servers
/// are the last ranks, so that rank 0 is a worker. Without a parameter server all ranks are workers.
struct Roles {
  int workers = 1;
  int servers = 0;

  Roles(int workers_, int servers_) : workers(workers_), servers(servers_) {}
  Roles(const DistributedOptions& options, int ranks)
      : Roles(ranks, options.strategy == StrategyKind::parameter_server ? options.servers : 0) {
    workers -= servers;
  }

  bool is_worker(int rank) const { return rank < workers; }
  int rank_of_server(int server) const { return workers + server; }
  int server_index(int rank) const { return rank - workers; }
};

}  // namespace vaecf::comm

namespace vaecf {

template <>
inline constexpr auto enum_names<comm::StrategyKind> = named<comm::StrategyKind>("allreduce",
                                                                                 "parameter_server");
template <>
inline constexpr auto enum_names<comm::AllReduceAlgorithm> = named<comm::AllReduceAlgorithm>("ring", "auto");
template <>
inline constexpr auto enum_names<comm::OptimizerPlacement> = named<comm::OptimizerPlacement>("replicated",
                                                                                             "sharded");
template <>
inline constexpr auto enum_names<comm::CommDtype> = named<comm::CommDtype>("fp32", "bf16");
template <>
inline constexpr auto enum_names<comm::ServerUpdates> = named<comm::ServerUpdates>("synchronous",
                                                                                   "asynchronous");

}  // namespace vaecf
