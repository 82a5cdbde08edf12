#include <vaecf/base/error.hpp>
#include <vaecf/device/cuda_info.hpp>
#include <vaecf/device/device.hpp>

#include <string>

#include "device/cpu/device.hpp"

namespace vaecf::device {
namespace {

/// Returns whether `options` select a GPU. Portable kernels exist for CPUs only.
bool takes_gpu(const BackendOptions& options) {
  if (options.device != DeviceChoice::automatic) return options.device == DeviceChoice::cuda;
  return options.kernels != Kernels::portable && cuda::availability().devices > 0;
}

}  // namespace

std::unique_ptr<Device> make_device(const BackendOptions& options) {
  if (!takes_gpu(options)) {
    const std::string why_no_gpu =
        options.device == DeviceChoice::automatic ? cuda::availability().reason : "";
    return cpu::make_device(options, why_no_gpu);
  }
  if (options.kernels == Kernels::portable) {
    throw InputError("backend.kernels: portable is for CPUs; use device: cpu, or backend.kernels: auto");
  }
  return cuda::make_device(options);
}

}  // namespace vaecf::device
