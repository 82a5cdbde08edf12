#pragma once

#include <vaecf/comm/distributed_options.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace vaecf::comm {

/// What decides how NCCL is set up.
struct NcclSettings {
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::ring;
  bool deterministic = false;
  bool shared_gpu = false;  ///< some ranks share a GPU
  int version = 0;          ///< of the library, as ncclGetVersion gives it
  int rank = 0;
};

/// NCCL's environment variables for these settings, (name, value).
std::vector<std::pair<std::string, std::string>> nccl_environment(const NcclSettings& settings);

/// Sets what nccl_environment says and the user has not set.
void set_nccl_environment(const NcclSettings& settings);

/// What must be alike on all ranks, or they wait for each other for ever: NCCL's version and the variables
/// that choose its algorithm, as they stand in the environment now.
std::string nccl_agreement(int version);

/// "2.28.9" of 22809.
std::string nccl_version_text(int version);

/// What the environment now makes of the settings, for the log: "ring", "NCCL's choice of algorithm", ...
std::string nccl_choice(const NcclSettings& settings);

/// What NCCL says about a call that failed.
struct NcclFailure {
  std::string call;                 ///< what was asked of it
  std::string meaning;              ///< ncclGetErrorString
  std::string details;              ///< ncclGetLastError; may be empty
  bool remote = false;              ///< another rank's fault, as far as NCCL knows
  std::int64_t shared_memory = -1;  ///< free bytes in /dev/shm; below 0: not known
};

/// One sentence with advice.
std::string to_message(const NcclFailure& failure);

/// Free bytes in /dev/shm, -1 where there is none.
std::int64_t free_shared_memory();

}  // namespace vaecf::comm
