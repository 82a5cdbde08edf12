#include <vaecf/backend/cuda_facts.hpp>
#include <vaecf/base/format.hpp>

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "backend/choose_gpu.hpp"
#include "check.cuh"

namespace vaecf::cuda {
namespace {

std::string why_not(cudaError_t error) {
  if (error == cudaErrorInsufficientDriver) {
    int driver = 0;
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
      return "no NVIDIA driver is loaded on this machine: install one, so that nvidia-smi lists its GPUs";
    }
    return explain_old_driver();
  }
  if (error == cudaErrorNoDevice || error == cudaSuccess) {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    if (visible != nullptr) {
      return format("no GPU is visible to this process, whose CUDA_VISIBLE_DEVICES is '{}': change it",
                    visible);
    }
    return "an NVIDIA driver is loaded, but it finds no GPU: see nvidia-smi";
  }
  return explain(error, "starting CUDA") + "; see whether nvidia-smi works";
}

/// Compute capabilities times ten; of a GPU that does not tell, one that is new enough.
std::vector<int> generations(int devices) {
  std::vector<int> all(static_cast<std::size_t>(devices), oldest_generation);
  for (int i = 0; i < devices; ++i) {
    int major = 0;
    int minor = 0;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, i) == cudaSuccess &&
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, i) == cudaSuccess) {
      all[static_cast<std::size_t>(i)] = 10 * major + minor;
    }
  }
  return all;
}

}  // namespace

Availability availability() {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error == cudaSuccess && devices > 0) {
    const std::string too_old = backend::why_too_old(generations(devices));
    return {true, too_old.empty() ? devices : 0, too_old};
  }
  cudaGetLastError();  // the runtime keeps the error for the next call to find
  return {true, 0, why_not(error)};
}

}  // namespace vaecf::cuda
