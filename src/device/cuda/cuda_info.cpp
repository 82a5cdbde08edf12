#include <vaecf/base/error.hpp>
#include <vaecf/device/cuda_info.hpp>

#include <cuda_runtime_api.h>

#include <cstdlib>

#include "device/cuda/device.hpp"
#include "device/cuda/platform/check.cuh"

namespace vaecf::cuda {
namespace {

std::string why_not(cudaError_t error) {
  int driver = 0;
  if (error == cudaErrorInsufficientDriver && (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)) {
    return "no NVIDIA driver is loaded on this machine; install one, so that nvidia-smi lists its GPUs";
  }
  if (error == cudaErrorNoDevice || error == cudaSuccess) {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    if (visible != nullptr) {
      return format(
          "no GPU is visible to this process, because CUDA_VISIBLE_DEVICES is '{}'; unset it, or list the indices of GPUs",
          visible);
    }
    return "the NVIDIA driver is loaded, but reports no GPU; see nvidia-smi";
  }
  return explain(error, "starting CUDA");
}

/// Returns the compute capabilities times ten. A GPU that cannot be queried counts as new enough.
std::vector<int> compute_capabilities(int devices) {
  std::vector<int> all(static_cast<std::size_t>(devices), min_compute_capability);
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

/// Returns the UUID in the format of nvidia-smi.
std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

int attribute(cudaDeviceP2PAttr what, int first, int second) {
  int value = 0;
  check(cudaDeviceGetP2PAttribute(&value, what, first, second), "querying the link between two GPUs");
  return value;
}

GpuInfo query_gpu_info(int index) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "querying the GPU's properties");
  return {properties.name, uuid_text(properties.uuid),
          format("{:04x}:{:02x}:{:02x}", properties.pciDomainID, properties.pciBusID, properties.pciDeviceID),
          static_cast<std::int64_t>(properties.totalGlobalMem), 10 * properties.major + properties.minor};
}

}  // namespace

Availability availability() {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error == cudaSuccess && devices > 0) {
    const std::string too_old = device::why_too_old(compute_capabilities(devices));
    return {true, too_old.empty() ? devices : 0, too_old};
  }
  cudaGetLastError();  // clears the error, which the next call would return otherwise
  return {true, 0, why_not(error)};
}

CudaInfo query_cuda_info() {
  CudaInfo info;
  if (cudaDriverGetVersion(&info.driver) != cudaSuccess) info.driver = 0;
  if (cudaRuntimeGetVersion(&info.runtime) != cudaSuccess) info.runtime = 0;
  cudaGetLastError();  // clears the error, which the next call would return otherwise
  const int devices = availability().devices;
  for (int i = 0; i < devices; ++i) info.gpus.push_back(query_gpu_info(i));
  for (int first = 0; first < devices; ++first) {
    for (int second = first + 1; second < devices; ++second) {
      info.links.push_back({first, second, attribute(cudaDevP2PAttrAccessSupported, first, second) != 0,
                            attribute(cudaDevP2PAttrNativeAtomicSupported, first, second) != 0});
    }
  }
  return info;
}

std::unique_ptr<device::Device> make_device(const device::BackendOptions& options) {
  const Availability gpus = availability();
  if (gpus.devices == 0) {
    throw InputError(format("device: cuda cannot be used: {}; use device: cpu or auto", gpus.reason));
  }
  const int chosen = device::choose_gpu(gpus.devices, options);
  const std::string too_old =
      device::why_too_old({query_cuda_info().gpus.at(static_cast<std::size_t>(chosen)).compute_capability});
  if (!too_old.empty()) {
    throw InputError(format("GPU {} of this host cannot be used: {}, or leave it out of CUDA_VISIBLE_DEVICES",
                            chosen, too_old));
  }
  return std::make_unique<Device>(options, chosen);
}

}  // namespace vaecf::cuda
