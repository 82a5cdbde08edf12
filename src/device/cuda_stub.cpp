// Replaces src/device/cuda/ in builds without CUDA.
#include <vaecf/device/cuda_info.hpp>

namespace vaecf::cuda {

Availability availability() {
  return {
      false, 0,
      "this program was built without CUDA; install CUDA 12.4 or newer with NCCL and configure again with -DVAECF_CUDA=ON, which reports what is missing"};
}

CudaInfo query_cuda_info() {
  return {};
}

}  // namespace vaecf::cuda
