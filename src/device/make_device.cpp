#include <vaecf/base/error.hpp>
#include <vaecf/device/cuda_info.hpp>
#include <vaecf/device/device.hpp>

#include <algorithm>

#include "device/cpu/device.hpp"

namespace vaecf::device {

int choose_gpu(int devices, const BackendOptions& options) {
  if (devices < 1) throw InputError("no GPU is visible to this process");
  if (devices == 1) return 0;
  if (options.local_size > devices && !options.allow_shared_gpu) {
    throw InputError(format(
        "{} ranks of this host see {} GPUs, and each rank needs its own; start at most {} ranks per host (mpirun --map-by ppr:{}:node), make more GPUs visible (CUDA_VISIBLE_DEVICES), use device: cpu or, for tests only, set distributed.allow_shared_gpu: true",
        options.local_size, devices, devices, devices));
  }
  return options.local_rank % devices;
}

std::string why_too_old(const std::vector<int>& compute_capabilities) {
  const auto newest = std::ranges::max_element(compute_capabilities);
  if (newest == compute_capabilities.end() || *newest >= cuda::min_compute_capability) return "";
  return format(
      "the GPU of this machine has compute capability {}.{}, but {}.{} (A100) or newer is required; use another machine",
      *newest / 10, *newest % 10, cuda::min_compute_capability / 10, cuda::min_compute_capability % 10);
}

std::unique_ptr<Device> make_device(const BackendOptions& options) {
  const bool automatic = options.device == DeviceChoice::automatic;
  const bool portable = options.kernels == Kernels::portable;
  if (automatic ? portable || cuda::availability().devices == 0 : options.device == DeviceChoice::cpu)
    return cpu::make_device(options, automatic ? cuda::availability().reason : "");
  if (portable)
    throw InputError("backend.kernels: portable is for CPUs; use device: cpu, or backend.kernels: auto");
  return cuda::make_device(options);
}

}  // namespace vaecf::device
