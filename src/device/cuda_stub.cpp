// Replaces src/device/cuda/ in builds without CUDA.
#include <vaecf/base/error.hpp>
#include <vaecf/device/cuda_info.hpp>
#include <vaecf/device/device.hpp>

namespace vaecf::cuda {

Availability availability() {
  return {
      false, 0,
      "this program was built without CUDA; install CUDA 12.4 or newer with NCCL and configure again with -DVAECF_CUDA=ON, which reports what is missing"};
}

CudaInfo query_cuda_info() {
  return {};
}

std::unique_ptr<device::Device> make_device(const device::BackendOptions&) {
  throw InputError(format("device: cuda cannot be used: {}; use device: cpu or auto", availability().reason));
}

}  // namespace vaecf::cuda
