// Compiled by the host compiler for the emulation; cuda_platform_kernels.cu includes it for nvcc.
#include "device/cuda/platform/launch.hpp"
#include "device/cuda_emulator/cuda_platform_support.hpp"

namespace vaecf::cuda_test {
namespace {

struct DoubleAndAddOne {
  static constexpr int threads = 64;
  static constexpr int scratch_bytes = 0;
  std::int64_t* values;
  std::int64_t size;
  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t block, std::byte*) const {
    const std::int64_t begin = block * 100;
    thread_group.each(size - begin < 100 ? size - begin : 100,
                      [&](std::int64_t i) { values[begin + i] = 2 * values[begin + i] + 1; });
  }
};

struct ReverseRow {
  static constexpr int threads = 96;
  static constexpr int scratch_bytes = 37 * sizeof(std::int64_t);
  std::int64_t* rows;
  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t block, std::byte* scratch) const {
    auto* kept = reinterpret_cast<std::int64_t*>(scratch);
    std::int64_t* row = rows + block * 38;
    thread_group.each(37, [&](std::int64_t i) { kept[i] = row[i]; });
    const auto sum = thread_group.sum(37, [&](std::int64_t i) { return kept[i]; });
    thread_group.each(38, [&](std::int64_t i) { row[i] = i < 37 ? kept[36 - i] : sum; });
  }
};

}  // namespace

void double_and_add_one(cuda::Stream& stream, cuda::DeviceArray<std::int64_t>& values) {
  launch(stream, (values.size() + 99) / 100, DoubleAndAddOne{values.data(), values.size()});
}

void reverse_rows(cuda::Stream& stream, std::int64_t* rows, std::int64_t count) {
  launch(stream, count, ReverseRow{rows});
}

}  // namespace vaecf::cuda_test
