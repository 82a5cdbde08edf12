#pragma once

#include <vaecf/comm/communicator.hpp>
#include <vaecf/comm/nccl.hpp>

#include <string>

#include "nccl_settings.hpp"

namespace vaecf::comm {

/// Settles, on all ranks of `control` alike, how NCCL is set up, and sets its environment. `device_id` names
/// this rank's GPU, `version` its NCCL. Collective; InputError on all ranks where they share a GPU without
/// leave, or differ in what nccl_agreement compares.
NcclSettings agree_on_nccl(Communicator& control, const NcclOptions& options, const std::string& device_id,
                           int version);

}  // namespace vaecf::comm
