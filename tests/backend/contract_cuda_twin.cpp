// The CUDA device's logic and kernels on the host: see tests/support/cuda_twin.
#include "backend/contract.hpp"

#include <memory>
#include <string>
#include <vector>

namespace vaecf::testing {

std::vector<ContractDevice> contract_devices() {
  std::vector<ContractDevice> all;
  const auto add = [&](const std::string& name, const backend::BackendOptions& options, bool fast) {
    all.push_back({"cuda_twin_" + name, [options] { return std::make_unique<Device>(options, 0); },
                   // The twin's memory is the host's; callers have waited for what writes it.
                   [](const Device::Buffer& buffer) {
                     return std::vector<float>(buffer.data(), buffer.data() + buffer.size());
                   },
                   fast});
  };
  for (const backend::Precision precision : {backend::Precision::fp32, backend::Precision::bf16,
                                             backend::Precision::fp16, backend::Precision::tf32}) {
    // The real size takes its time: once, in the precision that runs use.
    add(vaecf::to_string(precision), {.device = backend::DeviceChoice::cuda, .precision = precision},
        precision == backend::Precision::bf16);
  }
  add("host_rows",
      {.device = backend::DeviceChoice::cuda, .precision = backend::Precision::fp32, .resident = Toggle::off},
      false);
  return all;
}

}  // namespace vaecf::testing
