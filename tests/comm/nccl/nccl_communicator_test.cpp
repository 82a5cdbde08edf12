// Tests the NCCL communicator on GPUs, which the ranks of mpirun may share. Inputs are small integers, whose
// sums are exact in bf16 too, so that results must equal the serial ones bitwise.
#include <vaecf/base/error.hpp>
#include <vaecf/comm/nccl.hpp>
#include <vaecf/device/cuda_info.hpp>
#include <vaecf/device/device.hpp>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "comm/communicators.hpp"
#include "support/mpi_main.hpp"
#include "support/require_gpu.hpp"

namespace vaecf::comm {
namespace {

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

class Nccl : public testing::Test {
 protected:
  void SetUp() override {
    const cuda::Availability found = cuda::availability();
    require_gpu(found.reason);
    if (found.devices == 0) return;
    device_ = cuda::make_device({.device = device::DeviceChoice::cuda,
                                 .precision = device::Precision::fp32,
                                 .local_rank = control_.local_rank(),
                                 .local_size = control_.local_size(),
                                 .allow_shared_gpu = true});
    comm_ =
        make_nccl_communicator(control_, device_->facts().id, {.allow_shared_gpu = true, .timeout = 60.0});
  }

  template <class T>
  auto make_buffer(std::int64_t size) {
    if constexpr (std::is_same_v<T, Bf16>)
      return device_->make_bf16_buffer(size);
    else
      return device_->make_buffer(size);
  }
  template <class T>
  static void write(T* device, const std::vector<T>& values) {
    check(cudaMemcpy(device, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    check(cudaDeviceSynchronize());  // a copy from pageable memory may be unfinished when the call returns
  }
  template <class T>
  std::vector<T> read(const T* device, std::int64_t count) {
    device_->synchronize();
    std::vector<T> values(static_cast<std::size_t>(count));
    check(cudaMemcpy(values.data(), device, values.size() * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }
  void finish(Request request) { device_->wait_event(comm_->wait(request)); }
  int ranks() const { return control_.size(); }
  int rank() const { return control_.rank(); }

  template <class T>
  void test_sums_and_gathers(bool in_place);

  Communicator& control_ = mpi_world();
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<Communicator> comm_;
};

template <class T>
void Nccl::test_sums_and_gathers(bool in_place) {
  for (const std::int64_t size : {std::int64_t{1}, std::int64_t{ranks()}, std::int64_t{61},
                                  std::int64_t{4099}, std::int64_t{1} << 20}) {
    SCOPED_TRACE(size);
    const std::int64_t whole_size = size * ranks();
    auto all = make_buffer<T>(whole_size);
    auto apart = make_buffer<T>(size);
    T* const part = in_place ? all.data() + rank() * size : apart.data();
    const auto length = [](std::int64_t count) { return static_cast<std::size_t>(count); };
    const std::span<T> whole(all.data(), length(whole_size));

    write(all.data(), signed_inputs<T>(rank(), whole_size));
    finish(comm_->all_reduce_async(whole, device_->record_event()));
    EXPECT_TRUE(same_bits(read<T>(all.data(), whole_size), sums<T>(ranks(), whole_size)));

    write(all.data(), signed_inputs<T>(rank(), whole_size));
    finish(comm_->reduce_scatter_async(whole, std::span<T>(part, length(size)), device_->record_event()));
    EXPECT_TRUE(same_bits(read<T>(part, size), sums<T>(ranks(), size, rank() * size)));

    write(part, signed_inputs<T>(rank(), size));
    finish(comm_->all_gather_async(std::span<const T>(part, length(size)), whole, device_->record_event()));
    std::vector<T> expected;
    for (int r = 0; r < ranks(); ++r) {
      const auto theirs = signed_inputs<T>(r, size);
      expected.insert(expected.end(), theirs.begin(), theirs.end());
    }
    EXPECT_TRUE(same_bits(read<T>(all.data(), whole_size), expected));
  }
}

TEST_F(Nccl, SumsAndGathersEqualSerialResults) {
  for (const bool in_place : {false, true}) {
    test_sums_and_gathers<float>(in_place);
    test_sums_and_gathers<Bf16>(in_place);
  }
}

TEST_F(Nccl, CollectivesAreOrderedWithDeviceOperations) {
  constexpr std::int64_t size = 1 << 22;
  auto buffer = device_->make_buffer(size);
  auto copy = device_->make_buffer(size);
  const float expected = static_cast<float>(ranks() * (ranks() + 1) / 2);
  for (int round = 1; round <= 20; ++round) {
    device_->fill(buffer, static_cast<float>(round * (rank() + 1)));
    const Request request =
        comm_->all_reduce_async(std::span<float>(buffer.data(), size), device_->record_event());
    finish(request);
    device_->copy(buffer, {0, size}, copy, 0);
    device_->fill(buffer, -1.0F);
    const std::vector<float> found = read<float>(copy.data(), size);
    const std::vector<float> wanted(size, static_cast<float>(round) * expected);
    ASSERT_TRUE(same_bits(found, wanted)) << "round " << round;
  }
}

TEST_F(Nccl, ManyCollectivesMayBeInFlight) {
  constexpr std::int64_t piece = 4096;
  constexpr std::int64_t pieces = 100;
  auto buffer = device_->make_buffer(piece * pieces);
  write(buffer.data(), signed_inputs<float>(rank(), piece * pieces));
  const device::EventHandle whole = device_->record_event();
  std::vector<Request> requests;
  for (std::int64_t p = 0; p < pieces; ++p) {
    requests.push_back(comm_->all_reduce_async(std::span<float>(buffer.data() + p * piece, piece), whole));
  }
  for (const Request request : requests) finish(request);
  EXPECT_TRUE(same_bits(read<float>(buffer.data(), piece * pieces), sums<float>(ranks(), piece * pieces)));
}

TEST_F(Nccl, CapturedCollectivesRepeatOnReplay) {
  ASSERT_TRUE(comm_->supports_graph_capture());
  constexpr std::int64_t size = 100003;
  auto source = device_->make_buffer(size);
  auto buffer = device_->make_buffer(size);
  auto result = device_->make_buffer(size);
  write(source.data(), signed_inputs<float>(rank(), size));
  const auto work = [&] {
    device_->copy(source, {0, size}, buffer, 0);
    const Request first =
        comm_->all_reduce_async(std::span<float>(buffer.data(), size / 2), device_->record_event());
    const Request second = comm_->all_reduce_async(
        std::span<float>(buffer.data() + size / 2, size - size / 2), device_->record_event());
    finish(first);
    finish(second);
    device_->copy(buffer, {0, size}, result, 0);
  };
  const auto recording = device_->capture(work);
  ASSERT_NE(recording, nullptr);
  EXPECT_TRUE(same_bits(read<float>(result.data(), size), sums<float>(ranks(), size)));
  for (int round = 0; round < 5; ++round) {
    std::vector<float> values = signed_inputs<float>(rank(), size);
    for (float& value : values) value += static_cast<float>(round * (rank() + 1));
    write(source.data(), values);
    device_->fill(result, -1.0F);
    ASSERT_TRUE(device_->replay(*recording));
    std::vector<float> expected = sums<float>(ranks(), size);
    for (float& value : expected) value += static_cast<float>(round * ranks() * (ranks() + 1) / 2);
    EXPECT_TRUE(same_bits(read<float>(result.data(), size), expected)) << "round " << round;
    // Replays may alternate with collectives that are not captured.
    device_->fill(buffer, 1.0F);
    finish(comm_->all_reduce_async(std::span<float>(buffer.data(), size), device_->record_event()));
    EXPECT_TRUE(
        same_bits(read<float>(buffer.data(), size), std::vector<float>(size, static_cast<float>(ranks()))));
  }
}

TEST_F(Nccl, BlockingCollectivesUseMpi) {
  std::vector<double> values = {1.0, static_cast<double>(rank())};
  comm_->all_reduce(std::span<double>(values));
  EXPECT_EQ(values[0], ranks());
  EXPECT_EQ(values[1], ranks() * (ranks() - 1) / 2.0);
  EXPECT_EQ(comm_->rank(), control_.rank());
  EXPECT_EQ(comm_->size(), control_.size());
  EXPECT_EQ(comm_->description().find("NCCL 2."), 0U) << comm_->description();
  EXPECT_NE(comm_->description().find(control_.description()), std::string::npos);
}

}  // namespace
}  // namespace vaecf::comm
