#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/device/cuda_info.hpp>

#include "device/choose_gpu.hpp"
#include "device/cuda/device.hpp"

namespace vaecf::cuda {

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
