#include "cuda_platform_support.hpp"
#include "cuda_support.hpp"

namespace vaecf::cuda_test {

bool on_gpu() {
  return true;
}
void require_platform() {
  require_gpu();
}

}  // namespace vaecf::cuda_test
