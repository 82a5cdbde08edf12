// Stands in for src/backend/cuda/ where the program is built without CUDA.
#include <vaecf/backend/cuda_device.hpp>
#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include "cuda/make_cuda_backend.hpp"

namespace vaecf::cuda {

Availability availability() {
  return {
      false, 0,
      "this program was built without CUDA: install CUDA 12.4 or newer with NCCL and configure again with "
      "-DVAECF_CUDA=ON, which says what is missing"};
}

CudaFacts cuda_facts() {
  return {};
}

std::unique_ptr<backend::Backend> make_cuda_backend(const backend::BackendOptions&) {
  throw InputError(format("device: cuda cannot be used: {}; use device: cpu or auto", availability().reason));
}

}  // namespace vaecf::cuda
