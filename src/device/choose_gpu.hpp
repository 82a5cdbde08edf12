#pragma once

#include <vaecf/device/options.hpp>

#include <string>
#include <vector>

namespace vaecf::device {

/// Which of the `devices` GPUs that this process sees its rank takes: the only one, where a launcher gave
/// each rank its own, else that of its number on the host. InputError where a host's ranks are more than its
/// GPUs, unless they may share.
int choose_gpu(int devices, const BackendOptions& options);

/// Why none of these GPUs, by compute capability times ten, can be used; empty where one can.
std::string why_too_old(const std::vector<int>& generations);

}  // namespace vaecf::device
