#pragma once

#include <vaecf/device/options.hpp>

#include <string>
#include <vector>

namespace vaecf::device {

/// Returns the index of this rank's GPU among the `devices` visible ones. With one visible GPU this is 0,
/// otherwise the rank's index on the host modulo `devices`. Throws InputError if there are more ranks on the
/// host than GPUs and options.allow_shared_gpu is not set.
int choose_gpu(int devices, const BackendOptions& options);

/// Returns why none of these GPUs, given as compute capabilities times ten, can be used; empty if one can.
std::string why_too_old(const std::vector<int>& compute_capabilities);

}  // namespace vaecf::device
