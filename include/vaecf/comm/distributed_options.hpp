#pragma once

#include <vaecf/base/enum_names.hpp>

#include <cstdint>
#include <utility>

namespace vaecf::comm {

enum class Strategy { allreduce, parameter_server };
/// The library's own choice if it is `automatic`.
enum class AllReduceAlgorithm { ring, automatic };
/// Each rank updates all weights, or its part of them and keeps the moments of that part alone.
enum class OptimizerPlacement { replicated, sharded };
/// How gradients (and sharded weights) travel between ranks.
enum class Wire { fp32, bf16 };
enum class ServerUpdates { synchronous, asynchronous };

/// Limits of DistributedOptions::bucket_mib.
inline constexpr double least_bucket_mib = 0.001;
inline constexpr double most_bucket_mib = 1024.0;

/// What a run may choose about its ranks.
struct DistributedOptions {
  Strategy strategy = Strategy::allreduce;
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::ring;
  OptimizerPlacement optimizer = OptimizerPlacement::replicated;
  Wire wire = Wire::fp32;
  double bucket_mib = 4.0;             ///< gradients are reduced in pieces of this size
  Toggle overlap = Toggle::automatic;  ///< reduce while backward still runs; auto: on GPUs
  int servers = 1;                     ///< parameter_server: so many ranks, the last ones, hold the weights
  ServerUpdates updates = ServerUpdates::synchronous;  ///< parameter_server
  std::int64_t staleness = 4;          ///< asynchronous: steps that a worker may be ahead of the slowest one
  double warn_after = 60.0;            ///< seconds without progress after which the late rank is named
  double timeout = 300.0;              ///< seconds without progress after which the run is ended
  double loading_timeout = 3600.0;     ///< the same while ranks find each other, set up and load
  double validation_timeout = 3600.0;  ///< the same in validation, test, benchmark and writing a checkpoint
};

}  // namespace vaecf::comm

namespace vaecf {

template <>
inline constexpr EnumNames<comm::Strategy, 2> enum_names<comm::Strategy>{
    {{comm::Strategy::allreduce, "allreduce"}, {comm::Strategy::parameter_server, "parameter_server"}}};
template <>
inline constexpr EnumNames<comm::AllReduceAlgorithm, 2> enum_names<comm::AllReduceAlgorithm>{
    {{comm::AllReduceAlgorithm::ring, "ring"}, {comm::AllReduceAlgorithm::automatic, "auto"}}};
template <>
inline constexpr EnumNames<comm::OptimizerPlacement, 2> enum_names<comm::OptimizerPlacement>{
    {{comm::OptimizerPlacement::replicated, "replicated"}, {comm::OptimizerPlacement::sharded, "sharded"}}};
template <>
inline constexpr EnumNames<comm::Wire, 2> enum_names<comm::Wire>{
    {{comm::Wire::fp32, "fp32"}, {comm::Wire::bf16, "bf16"}}};
template <>
inline constexpr EnumNames<comm::ServerUpdates, 2> enum_names<comm::ServerUpdates>{
    {{comm::ServerUpdates::synchronous, "synchronous"}, {comm::ServerUpdates::asynchronous, "asynchronous"}}};

}  // namespace vaecf
