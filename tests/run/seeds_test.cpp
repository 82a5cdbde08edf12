#include <vaecf/run/seeds.hpp>

#include <gtest/gtest.h>

#include <cstdint>

namespace vaecf::run {
namespace {

// Of 0.1, 0.2 and 0.4 the mean is 0.7 / 3, and the sum of squared differences from it 0.14 / 3.
TEST(Seeds, TableHasMeanAndSampleStandardDeviation) {
  const auto test = [](std::uint64_t seed, double recall, double popularity) {
    return SeedTest{seed, 50, {{"mean_popularity@10", {popularity}}, {"recall@5", {recall}}}};
  };
  EXPECT_EQ(to_table({test(9, 0.1, 1000.0), test(10, 0.2, 1001.0), test(98765, 0.4, 1005.0)}),
            "tests of 3 seeds: 50 users\n"
            "  metric                  mean        sd    seed 9   seed 10  seed 98765\n"
            "  mean_popularity@10    1002.0       2.6    1000.0    1001.0      1005.0\n"
            "  recall@5              0.2333    0.1528    0.1000    0.2000      0.4000\n");
}

}  // namespace
}  // namespace vaecf::run
