#include <vaecf/base/error.hpp>
#include <vaecf/device/cpu/device.hpp>
#include <vaecf/device/cuda_info.hpp>

#include "train/engine/engine_of.hpp"

namespace vaecf::train {
namespace {

/// Returns whether `options` select a GPU. Portable kernels exist for CPUs only.
bool takes_gpu(const device::BackendOptions& options) {
  if (options.device != device::DeviceChoice::automatic) return options.device == device::DeviceChoice::cuda;
  return options.kernels != device::Kernels::portable && cuda::availability().devices > 0;
}

}  // namespace

std::unique_ptr<Engine> make_engine(const device::BackendOptions& options) {
  if (!takes_gpu(options)) {
    const std::string why_no_gpu =
        options.device == device::DeviceChoice::automatic ? cuda::availability().reason : "";
    return std::make_unique<EngineOf<cpu::Device>>(cpu::make_device(options, why_no_gpu));
  }
  if (options.kernels == device::Kernels::portable) {
    throw InputError("backend.kernels: portable is for CPUs; use device: cpu, or backend.kernels: auto");
  }
  return make_cuda_engine(options);
}

}  // namespace vaecf::train
