#pragma once

#include <vaecf/backend/backend.hpp>

namespace vaecf::backend {

/// Which of the `devices` GPUs that this process sees its rank takes: the only one, where a launcher gave
/// each rank its own, else that of its number on the host. InputError where a host's ranks are more than its
/// GPUs, unless they may share.
int choose_gpu(int devices, const BackendOptions& options);

}  // namespace vaecf::backend
