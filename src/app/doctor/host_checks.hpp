#pragma once

#include "app/doctor/finding.hpp"
#include "app/doctor/host_facts.hpp"

#include <vector>

namespace vaecf::app {

/// What one host's facts mean for `ranks` ranks on it, with GPUs or without.
std::vector<Finding> check_host(const HostFacts& facts, int ranks, bool gpus);

}  // namespace vaecf::app
