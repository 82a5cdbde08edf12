#include <vaecf/backend/cpu/device.hpp>
#include <vaecf/backend/cuda_facts.hpp>
#include <vaecf/base/error.hpp>

#include "train/engine/engine_of.hpp"

namespace vaecf::train {
namespace {

/// Returns true if a GPU is wanted. Only CPUs have portable kernels.
bool takes_gpu(const backend::BackendOptions& options) {
  if (options.device != backend::DeviceChoice::automatic)
    return options.device == backend::DeviceChoice::cuda;
  return options.kernels != backend::Kernels::portable && cuda::availability().devices > 0;
}

}  // namespace

std::unique_ptr<Engine> make_engine(const backend::BackendOptions& options) {
  if (!takes_gpu(options)) {
    const std::string why_no_gpu =
        options.device == backend::DeviceChoice::automatic ? cuda::availability().reason : "";
    return std::make_unique<EngineOf<cpu::Device>>(cpu::make_device(options, why_no_gpu));
  }
  if (options.kernels == backend::Kernels::portable) {
    throw InputError("backend.kernels: portable is for CPUs: use it with device: cpu, or auto with this one");
  }
  return make_cuda_engine(options);
}

}  // namespace vaecf::train
