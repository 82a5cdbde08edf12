#include <vaecf/device/cuda_info.hpp>

#include "device/cuda_emulator/cuda_platform_support.hpp"
#include "support/require_gpu.hpp"

namespace vaecf::cuda_test {

bool on_gpu() {
  return true;
}

void require_platform() {
  require_gpu(cuda::availability().reason);
}

}  // namespace vaecf::cuda_test
