#include <vaecf/device/cuda_info.hpp>

#include <cstdlib>
#include <string_view>

#include "device/cuda_emulator/cuda_platform_support.hpp"

namespace vaecf::cuda_test {

bool on_gpu() {
  return true;
}

void require_platform() {
  const cuda::Availability found = cuda::availability();
  if (found.devices > 0) return;
  const char* required = std::getenv("VAECF_REQUIRE_GPU");
  if (required != nullptr && std::string_view(required) == "1") {
    FAIL() << "VAECF_REQUIRE_GPU=1, but " << found.reason;
  }
  GTEST_SKIP() << found.reason;
}

}  // namespace vaecf::cuda_test
