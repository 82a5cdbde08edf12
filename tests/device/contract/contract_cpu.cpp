#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/contract/contract.hpp"
#include "device/cpu/device.hpp"
#include "device/cpu/kernels/isa_kernels.hpp"
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
  const auto add = [&](const std::string& name, const std::shared_ptr<const cpu::TileKernels>& tiles,
                       bool fast) {
    all.push_back({"cpu_bf16_" + name,
                   [tiles] { return std::make_unique<cpu::Device>(2, Precision::bf16, false, tiles); },
                   read_host, fast});
  };
  const auto add_fp32 = [&](const std::string& name, cpu::PanelKernel panels) {
    all.push_back(
        {"cpu_fp32_" + name,
         [panels] { return std::make_unique<cpu::Device>(2, Precision::fp32, false, nullptr, panels); },
         read_host, true});
  };
  if (cpu::choose_panels() != nullptr)
    add_fp32("onednn", nullptr);
  else if (cpu::make_avx2_panels() != nullptr)
    add_fp32("panels", cpu::make_avx2_panels());
  // Without tiles, bf16_auto already uses oneDNN.
  if (cpu::choose_tiles() != nullptr) add("onednn", nullptr, true);
  add("emulated", std::make_shared<EmulatedTiles>(), false);
  const auto avx512 = cpu::make_avx512_tiles();
  if (avx512 && cpu::make_amx_tiles()) add("avx512", avx512, true);
  return all;
}

std::vector<ContractDevice> small_devices(int) {
  return {};
}

}  // namespace vaecf::testing
