#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

namespace vaecf::cuda {

/// Throws RunError with `what` and advice unless `status` is cudaSuccess.
void check(cudaError_t status, const char* what);

/// Returns the message of that error: what failed, CUDA's description, and advice.
std::string explain(cudaError_t status, const char* what);

/// Returns the message of the error that `bytes` for `what` do not fit into GPU memory, of which this run
/// uses `used_by_run`.
std::string explain_full_memory(const char* what, std::int64_t bytes, std::int64_t free, std::int64_t total,
                                std::int64_t used_by_run);

}  // namespace vaecf::cuda
