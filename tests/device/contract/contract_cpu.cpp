#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/contract/contract.hpp"
#include "device/cpu/device.hpp"
#include "device/cpu/kernels/panels.hpp"
#include "device/cpu/kernels/tiles.hpp"
#include "support/emulated_tiles.hpp"

namespace vaecf::testing {

using device::Precision;

std::vector<ContractDevice> contract_devices() {
  std::vector<ContractDevice> all;
  for (const auto& [precision, precision_name] :
       {std::pair{Precision::fp32, "fp32"}, {Precision::bf16, "bf16"}}) {
    for (const auto kernels : {device::Kernels::automatic, device::Kernels::portable}) {
      const device::BackendOptions options{device::DeviceChoice::cpu, precision, kernels, 2};
      all.push_back({std::string("cpu_") + precision_name + "_" + to_string(kernels),
                     [options] { return cpu::make_device(options); }, read_host,
                     kernels == device::Kernels::automatic});
    }
  }
  // "auto" selects the best kernel of this machine; the other available ones must fulfill the contract too.
  const auto add = [&](const std::string& name, Precision precision,
                       const std::shared_ptr<const cpu::TileKernels>& tiles,
                       cpu::PanelKernel panels = nullptr, bool fast = true) {
    all.push_back({"cpu_" + name,
                   [=] { return std::make_unique<cpu::Device>(2, precision, false, tiles, panels); },
                   read_host, fast});
  };
  if (cpu::choose_panels() != nullptr)
    add("fp32_onednn", Precision::fp32, nullptr);
  else if (cpu::make_avx2_panels() != nullptr)
    add("fp32_panels", Precision::fp32, nullptr, cpu::make_avx2_panels());
  // Without tiles, bf16_auto already uses oneDNN.
  if (cpu::choose_tiles() != nullptr) add("bf16_onednn", Precision::bf16, nullptr);
  add("bf16_emulated", Precision::bf16, std::make_shared<EmulatedTiles>(), nullptr, false);
  // On other machines, these are those of "auto".
#if defined(__x86_64__)
  add("fp32_plain", Precision::fp32, nullptr, cpu::plain_panel_kernel(), false);
  add("bf16_plain", Precision::bf16, std::shared_ptr<const cpu::TileKernels>(cpu::create_plain_tiles()),
      nullptr, false);
#endif
  const auto avx512 = cpu::make_avx512_tiles();
  if (avx512 && cpu::make_amx_tiles()) add("bf16_avx512", Precision::bf16, avx512);
  return all;
}

std::vector<ContractDevice> small_devices(int) {
  return {};
}

}  // namespace vaecf::testing
