#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

namespace vaecf::cuda {

/// RunError naming `what` and what to do where `status` is no success.
void check(cudaError_t status, const char* what);

/// The text of that error: what failed, CUDA's name for it, what to do.
std::string explain(cudaError_t status, const char* what);

/// The text of the error that `bytes` more for `what` do not fit into a GPU's memory, of which `ours` are
/// used by this run.
std::string explain_full_memory(const char* what, std::int64_t bytes, std::int64_t free, std::int64_t total,
                                std::int64_t ours);

}  // namespace vaecf::cuda
