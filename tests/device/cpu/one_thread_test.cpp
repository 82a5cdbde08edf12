#include <vaecf/base/thread_limit.hpp>

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <thread>
#include <vector>

#include "device/cpu/kernels/gemm.hpp"
#include "device/cpu/parallel.hpp"

namespace vaecf::cpu {
namespace {

std::int64_t threads_of_this_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

// As with two ranks on two cores: products use one thread, although OpenMP would start more. More threads
// make ranks compete for cores; training then took fifteen times as long.
TEST(OneThread, ProductUsesOneThread) {
  constexpr std::int64_t m = 250;
  constexpr std::int64_t n = 600;
  constexpr std::int64_t k = 600;
  const std::vector<float> a(m * k, 1.0F);
  const std::vector<float> b(k * n, 2.0F);
  std::vector<float> c(m * n);
  const int before = omp_get_max_threads();
  // A new thread, because it has no OpenMP team from other tests.
  std::thread worker([&] {
    omp_set_num_threads(4);
    const auto engine = make_onednn_engine();
    PackedOperand packed;
    const MatmulSpec spec{.m = m, .n = n, .k = k};
    const std::int64_t threads = threads_of_this_process();
    for (int i = 0; i < 20; ++i) {
      engine->run(spec, a.data(), b.data(), c.data());
      EXPECT_LE(threads_of_this_process(), threads);
      engine->pack(spec, b.data(), packed);
      engine->run_packed(spec, a.data(), packed, c.data());
      EXPECT_LE(threads_of_this_process(), threads);
    }
    EXPECT_EQ(omp_get_max_threads(), 4);
  });
  worker.join();
  EXPECT_EQ(omp_get_max_threads(), before);
  EXPECT_TRUE(std::all_of(c.begin(), c.end(), [](float value) { return value == 1200.0F; }));
}

TEST(ThreadLimit, HoldsForTeamsOfTheDevice) {
  const auto team = [] {
    std::vector<int> of_share(3);
    parallel_for_threads(3, [&](int share) { of_share[share] = omp_get_num_threads(); });
    return of_share;
  };
  EXPECT_EQ(team(), (std::vector<int>{3, 3, 3}));
  const ThreadLimit one(1);
  EXPECT_EQ(team(), (std::vector<int>{1, 1, 1}));
}

}  // namespace
}  // namespace vaecf::cpu
