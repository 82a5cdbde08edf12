// The CUDA device's logic and kernels in host emulation: see tests/support/cuda_emulator.
#include "device/contract/contract.hpp"

#include <memory>
#include <string>
#include <vector>

namespace vaecf::testing {

namespace {

ContractDevice emulated(const std::string& name, device::Precision precision, bool fast = false,
                        int device = 0, Toggle resident = Toggle::automatic) {
  const device::BackendOptions options{
      .device = device::DeviceChoice::cuda, .precision = precision, .resident = resident};
  return {"cuda_emulated_" + name, [=] { return std::make_unique<Device>(options, device); },
          // Emulated device memory is host memory; callers have waited for the operations that write it.
          [](const Device::Buffer& buffer) {
            return std::vector<float>(buffer.data(), buffer.data() + buffer.size());
          },
          fast};
}

}  // namespace

std::vector<ContractDevice> contract_devices() {
  using device::Precision;
  // The real size is slow, so it runs once, in the precision of production runs.
  return {emulated("fp32", Precision::fp32), emulated("bf16", Precision::bf16, true),
          emulated("fp16", Precision::fp16), emulated("tf32", Precision::tf32),
          emulated("host_rows", Precision::fp32, false, 0, Toggle::off)};
}

std::vector<ContractDevice> small_cuda_devices() {
  // The emulated GPU with index n has n MiB: of this one, 32 may be used for logits.
  constexpr int small = 256;
  return {emulated("fp32_small", device::Precision::fp32, false, small),
          emulated("bf16_small", device::Precision::bf16, false, small)};
}

}  // namespace vaecf::testing
