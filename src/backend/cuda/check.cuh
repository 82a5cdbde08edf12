#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

namespace vaecf::cuda {

/// RunError naming `what` and what to do where `status` is no success.
void check(cudaError_t status, const char* what);

/// The text of that error: what failed, CUDA's name for it, whether earlier work is to blame, what to do.
std::string explain(cudaError_t status, const char* what);

/// The driver is too old for this program: which CUDA it knows, which one we need, what to do.
std::string explain_old_driver();

/// Memory of a GPU, in bytes.
struct MemoryState {
  std::int64_t free = 0;
  std::int64_t total = 0;
  std::int64_t ours = 0;
};
/// The text of the error that `bytes` more for `what` do not fit.
std::string explain_full_memory(const char* what, std::int64_t bytes, const MemoryState& memory);

}  // namespace vaecf::cuda
