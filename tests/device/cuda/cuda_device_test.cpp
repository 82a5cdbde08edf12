#include <vaecf/device/cuda_info.hpp>

#include <gtest/gtest.h>

#include <string>

// Runs in every build and on every machine: VAECF_TEST_HAS_CUDA is 1 if the CUDA code was compiled.
TEST(CudaDevice, AvailabilityReportsCompiledCudaAndAReasonWithoutDevice) {
  const vaecf::cuda::Availability found = vaecf::cuda::availability();
  EXPECT_EQ(found.compiled, VAECF_TEST_HAS_CUDA == 1);
  EXPECT_GE(found.devices, 0);
  EXPECT_EQ(found.reason.empty(), found.devices > 0);
  if (found.devices == 0) {
    EXPECT_NE(found.reason.find("; "), std::string::npos) << "not \"problem; remedy\": " << found.reason;
  }
  if (!found.compiled) {
    EXPECT_EQ(found.devices, 0);
    EXPECT_NE(found.reason.find("-DVAECF_CUDA=ON"), std::string::npos) << found.reason;
  }
}
