#include <vaecf/backend/cuda_device.hpp>
#include <vaecf/base/format.hpp>

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <string>

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

}  // namespace

Availability availability() {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error == cudaSuccess && devices > 0) return {true, devices, ""};
  cudaGetLastError();  // the runtime keeps the error for the next call to find
  return {true, 0, why_not(error)};
}

}  // namespace vaecf::cuda
