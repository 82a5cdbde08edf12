#include <vaecf/device/cuda/device.hpp>

#include "train/engine/engine_of.hpp"

namespace vaecf::train {

std::unique_ptr<Engine> make_cuda_engine(const device::BackendOptions& options) {
  return std::make_unique<EngineOf<cuda::Device>>(cuda::make_device(options));
}

}  // namespace vaecf::train
