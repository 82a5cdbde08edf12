// Replaces cuda.cpp in builds without CUDA.
#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/device/cuda_info.hpp>
#include <vaecf/train/engine.hpp>

namespace vaecf::train {

std::unique_ptr<Engine> make_cuda_engine(const device::BackendOptions&) {
  throw InputError(
      format("device: cuda cannot be used: {}; use device: cpu or auto", cuda::availability().reason));
}

}  // namespace vaecf::train
