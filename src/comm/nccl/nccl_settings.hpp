#pragma once

#include <vaecf/comm/nccl.hpp>

#include <string>

namespace vaecf::comm {

/// The settings that determine NCCL's environment variables.
struct NcclSettings {
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::ring;
  bool deterministic = false;
  bool shared_gpu = false;  ///< some ranks share a GPU
  int version = 0;          ///< version of the library as returned by ncclGetVersion
  int rank = 0;
};

/// Sets the NCCL environment variables that `settings` require, except those that the user has set.
void set_nccl_environment(const NcclSettings& settings);

/// Negotiates the NCCL settings between the ranks of `control`, and sets the environment. `device_id`
/// identifies this rank's GPU; `version` is its NCCL version. Collective. Throws InputError on all ranks if
/// two ranks share a GPU without `allow_shared_gpu`. Also throws it if NCCL versions or the variables that
/// select the algorithm differ, which would cause a deadlock.
NcclSettings negotiate_nccl_settings(Communicator& control, const NcclOptions& options,
                                     const std::string& device_id, int version);

/// Describes the algorithm that results from `settings` and the environment, for the log: "ring", "algorithm
/// chosen by NCCL", ...
std::string describe_nccl_algorithm(const NcclSettings& settings);

/// Formats an NCCL version: 22809 is "2.28.9".
std::string nccl_version_string(int version);

}  // namespace vaecf::comm
