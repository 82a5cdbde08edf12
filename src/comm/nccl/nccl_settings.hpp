#pragma once

#include <vaecf/comm/nccl.hpp>

#include <string>

namespace vaecf::comm {

/// What decides how NCCL is set up.
struct NcclSettings {
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::ring;
  bool deterministic = false;
  bool shared_gpu = false;  ///< some ranks share a GPU
  int version = 0;          ///< of the library, as ncclGetVersion gives it
  int rank = 0;
};

/// Sets the variables of NCCL's environment that these settings need and the user has not set.
void set_nccl_environment(const NcclSettings& settings);

/// Settles, on all ranks of `control` alike, how NCCL is set up, and sets its environment. `device_id` names
/// this rank's GPU, `version` its NCCL. Collective; InputError on all ranks if some share a GPU without
/// leave, or differ in NCCL's version or in the variables that choose its algorithm, as they would wait for
/// each other for ever.
NcclSettings agree_on_nccl(Communicator& control, const NcclOptions& options, const std::string& device_id,
                           int version);

/// What the environment now makes of the settings, for the log: "ring", "NCCL's choice of algorithm", ...
std::string nccl_choice(const NcclSettings& settings);

/// "2.28.9" of 22809.
std::string nccl_version_text(int version);

}  // namespace vaecf::comm
