// The CUDA device on a GPU. Without a GPU the tests are skipped, or fail if VAECF_REQUIRE_GPU=1.
#include <vaecf/device/cuda_info.hpp>

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "device/contract/contract.hpp"

namespace vaecf::testing {
namespace {

/// Callers have waited for the operations that write the buffer; cudaMemcpy waits for the copy.
std::vector<float> read(const device::Buffer& buffer) {
  std::vector<float> values(static_cast<std::size_t>(buffer.size()));
  const cudaError_t status =
      cudaMemcpy(values.data(), buffer.data(), values.size() * sizeof(float), cudaMemcpyDeviceToHost);
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
  return values;
}

ContractDevice on_gpu(const std::string& name, const device::BackendOptions& options) {
  const auto make = [options] { return cuda::make_device(options); };
  return {"cuda_" + name, make, read, true, cuda::availability().reason, false};
}

}  // namespace

std::vector<ContractDevice> contract_devices() {
  std::vector<ContractDevice> all;
  const auto add = [&](const std::string& name, const device::BackendOptions& options) {
    all.push_back(on_gpu(name, options));
  };
  for (const device::Precision precision :
       {device::Precision::fp32, device::Precision::bf16, device::Precision::fp16, device::Precision::tf32,
        device::Precision::bf16x3}) {
    add(vaecf::to_string(precision), {.device = device::DeviceChoice::cuda, .precision = precision});
  }
  add("host_rows",
      {.device = device::DeviceChoice::cuda, .precision = device::Precision::bf16, .resident = Toggle::off});
  return all;
}

std::vector<ContractDevice> small_devices(int) {
  return {};
}

}  // namespace vaecf::testing
