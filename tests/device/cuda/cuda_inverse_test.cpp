// The Gram matrix and the inverse of EASE's matrix on a GPU; training_cuda_emulated_test checks it in host
// emulation.
#include <vaecf/device/cuda_info.hpp>
#include <vaecf/device/device.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "device/cuda_emulator/cuda_platform_support.hpp"

namespace vaecf::cuda_test {
namespace {

/// The number of items, and whether the interactions have values.
class Inverse : public ::testing::TestWithParam<std::tuple<std::int64_t, bool>> {
 protected:
  void SetUp() override { require_platform(); }
};

TEST_P(Inverse, EqualsThatOfTheCpu) {
  const auto [n, valued] = GetParam();
  device::SpdInverse expected(n, 0, 1, 2), matrix(n, 0, 1, 2);
  // User u has all items from u on; so items i < j have i + 1 users in common. Item j has the value v_j.
  std::vector<float> v, values, values_by_item;
  for (std::int64_t j = 0; j < n; ++j) v.push_back(valued ? 0.5F + 0.5F * static_cast<float>(j % 4) : 1.0F);
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> items;
  for (std::int64_t u = 0; u < n; ++u) {
    for (std::int64_t j = u; j < n; ++j) {
      items.push_back(static_cast<std::int32_t>(j));
      if (valued) values.push_back(v[static_cast<std::size_t>(j)]);
    }
    offsets.push_back(static_cast<std::int64_t>(items.size()));
  }
  std::vector<std::int64_t> item_offsets{0};
  std::vector<std::int32_t> users;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t u = 0; u <= i; ++u) {
      users.push_back(static_cast<std::int32_t>(u));
      if (valued) values_by_item.push_back(v[static_cast<std::size_t>(i)]);
    }
    item_offsets.push_back(static_cast<std::int64_t>(users.size()));
  }
  const std::vector<float> weights(static_cast<std::size_t>(n), 1.0F);
  const device::GramInput x{{offsets, items, values}, {item_offsets, users, values_by_item}, weights};
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j)
      expected.row(i)[static_cast<std::size_t>(j)] = v[static_cast<std::size_t>(i)] *
                                                     v[static_cast<std::size_t>(j)] *
                                                     static_cast<float>(std::min(i, j) + 1);
    for (device::SpdInverse* a : {&expected, &matrix})
      a->row(i)[static_cast<std::size_t>(i)] =
          v[static_cast<std::size_t>(i)] * v[static_cast<std::size_t>(i)] * static_cast<float>(i + 1) +
          static_cast<float>(n);
  }
  const auto progress = [](std::int64_t, std::int64_t) { return true; };
  ASSERT_EQ(expected.invert({}, progress), device::Inversion::done);
  const auto device = cuda::make_device({.device = device::DeviceChoice::cuda});
  ASSERT_NE(device->solver(), nullptr);
  ASSERT_TRUE(device->solver()->fits(matrix, x));
  ASSERT_EQ(device->solver()->invert(matrix, x, {}, progress), device::Inversion::done);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      ASSERT_NEAR(matrix.row(i)[static_cast<std::size_t>(j)], expected.row(i)[static_cast<std::size_t>(j)],
                  1e-6)
          << i << ", " << j;
}
INSTANTIATE_TEST_SUITE_P(Sizes, Inverse, testing::Combine(testing::Values(1, 300, 1100), testing::Bool()));

}  // namespace
}  // namespace vaecf::cuda_test
