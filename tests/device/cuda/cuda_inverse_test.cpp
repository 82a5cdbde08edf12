// The inverse of EASE's matrix on a GPU; train_cuda_emulated_test checks it in host emulation.
#include <gtest/gtest.h>
#include <vaecf/device/cuda/device.hpp>

#include <cmath>

#include "device/cuda_emulator/cuda_platform_support.hpp"

namespace vaecf::cuda_test {
namespace {

class Inverse : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { require_platform(); }
};

TEST_P(Inverse, EqualsThatOfTheCpu) {
  const std::int64_t n = GetParam();
  cpu::SpdInverse expected(n, 0, 1, 2), matrix(n, 0, 1, 2);
  for (cpu::SpdInverse* a : {&expected, &matrix})
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        a->row(i)[static_cast<std::size_t>(j)] =
            1.0F / static_cast<float>(1 + std::abs(i - j)) + (i == j ? 1.0F : 0.0F);
  const auto progress = [](std::int64_t, std::int64_t) {};
  ASSERT_TRUE(expected.invert({}, progress));
  const auto device = cuda::make_device({.device = device::DeviceChoice::cuda});
  ASSERT_TRUE(device->has_memory_to_invert(matrix));
  ASSERT_TRUE(device->invert(matrix, {}, progress));
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      ASSERT_NEAR(matrix.row(i)[static_cast<std::size_t>(j)], expected.row(i)[static_cast<std::size_t>(j)],
                  1e-6)
          << i << ", " << j;
}
INSTANTIATE_TEST_SUITE_P(Sizes, Inverse, testing::Values(1, 300, 1100));

}  // namespace
}  // namespace vaecf::cuda_test
