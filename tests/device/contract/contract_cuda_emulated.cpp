// The CUDA device's logic and kernels in host emulation: see tests/support/cuda_emulator.
#include <memory>
#include <ranges>
#include <stdexcept>
#include <string>
#include <vector>

#include "device/contract/contract.hpp"
#include "device/cuda/device.hpp"
#include "support/cuda_emulator/communicator.hpp"

namespace vaecf::testing {

namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

ContractDevice emulated(const std::string& name, device::Precision precision, bool fast = false, int gpu = 0,
                        Toggle resident = Toggle::automatic) {
  const device::BackendOptions options{
      .device = device::DeviceChoice::cuda, .precision = precision, .resident = resident};
  return {.name = "cuda_emulated_" + name,
          .make = [=] { return std::make_unique<cuda::Device>(options, gpu); },
          .read = read_host,
          .fast = fast,
          .several_item_slices = gpu == 0 && (!sanitized || precision == device::Precision::fp32),
          .exchange = cuda::emulator::thread_device()};
}

}  // namespace

std::vector<ContractDevice> contract_devices() {
  using device::Precision;
  // The real size is slow, so it runs once, in the precision of production runs.
  return {
      emulated("fp32", Precision::fp32),     emulated("bf16", Precision::bf16, true),
      emulated("fp16", Precision::fp16),     emulated("tf32", Precision::tf32),
      emulated("bf16x3", Precision::bf16x3), emulated("host_rows", Precision::fp32, false, 0, Toggle::off)};
}

std::vector<ContractDevice> small_devices(int mebibytes) {
  // The emulated GPU with index n has n MiB.
  return {emulated("fp32_small", device::Precision::fp32, false, mebibytes),
          emulated("bf16_small", device::Precision::bf16, false, mebibytes),
          emulated("bf16x3_small", device::Precision::bf16x3, false, mebibytes)};
}

namespace {

class SideStream : public Contract {
 protected:
  SideStream() { gather(random_rows(9, 33, 1), 33, true, batch); }
  void run(const FusedUpdate* update) {
    softmax_step(hidden, batch, layer, step(), d_hidden, unreported, update);
  }

  TestLayer layer = random_layer(device::TensorKind::output_table, 5, 33);
  TestMoments moments = make_moments(layer);
  const FusedUpdate fused{layer.parameters, moments.first, moments.second};
  TestBatch batch;
  device::Matrix hidden = activations(random_matrix(9, 5, 2));
  device::Matrix d_hidden = device().make_matrix(9, 5);
};
INSTANTIATE_TEST_SUITE_P(Devices, SideStream, ::testing::Values(emulated("fp32", device::Precision::fp32)),
                         contract_name);

// Even if it runs as early as its events allow.
TEST_P(SideStream, UpdateRunsAfterTheHiddenGradientIsComputed) {
  begin({}, 0.0F, update_rules[1]);
  run(nullptr);
  const std::vector<float> expected = read(d_hidden);
  run(&fused);
  const float* weights = layer.parameters.master().data();
  EXPECT_EQ(*weights, layer.weight.floats()[0]) << "the update has not run";
  for (const auto& weak : std::vector(cuda::emulator::runtime().timelines) | std::views::reverse) {
    if (const auto timeline = weak.lock()) cuda::emulator::run_until(*timeline, timeline->queued);
  }
  EXPECT_NE(*weights, layer.weight.floats()[0]);
  EXPECT_EQ(read(d_hidden), expected);
}

TEST_P(SideStream, DeviceIsUsableAfterAFailedCapture) {
  begin({}, 0.0F, update_rules[1]);
  int calls = 0;
  const auto fails = [&] {
    run(&fused);
    if (++calls == 2) throw std::runtime_error("no");
    device().end_step(step());
  };
  EXPECT_THROW(device().capture(fails), std::runtime_error);
  begin({}, 0.0F, update_rules[1]);
  run(&fused);
  EXPECT_EQ(losses().users, 9);
}

}  // namespace

}  // namespace vaecf::testing
