#include "make_cuda_backend.hpp"

#include <vaecf/backend/cuda_device.hpp>
#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include "backend/choose_gpu.hpp"
#include "cuda_backend.hpp"

namespace vaecf::cuda {

std::unique_ptr<backend::Backend> make_cuda_backend(const backend::BackendOptions& options) {
  const Availability gpus = availability();
  if (gpus.devices == 0) {
    throw InputError(format("device: cuda cannot be used: {}; use device: cpu or auto", gpus.reason));
  }
  return std::make_unique<CudaBackend>(options, backend::choose_gpu(gpus.devices, options));
}

}  // namespace vaecf::cuda
