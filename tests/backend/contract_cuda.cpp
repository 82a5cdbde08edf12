// The CUDA device on a GPU. Without one its tests are skipped, or fail where VAECF_REQUIRE_GPU=1.
#include "backend/contract.hpp"

#include <cuda_runtime_api.h>
#include <vaecf/backend/cuda_facts.hpp>

#include <stdexcept>
#include <string>
#include <vector>

namespace vaecf::testing {
namespace {

/// Callers have waited for what writes it; cudaMemcpy waits for the copy.
std::vector<float> read(const Device::Buffer& buffer) {
  std::vector<float> values(static_cast<std::size_t>(buffer.size()));
  const cudaError_t status =
      cudaMemcpy(values.data(), buffer.data(), values.size() * sizeof(float), cudaMemcpyDeviceToHost);
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
  return values;
}

}  // namespace

std::vector<ContractDevice> contract_devices() {
  std::vector<ContractDevice> all;
  const auto add = [&](const std::string& name, const backend::BackendOptions& options) {
    all.push_back({"cuda_" + name, [options] { return cuda::make_device(options); }, read, true,
                   cuda::availability().reason});
  };
  for (const backend::Precision precision : {backend::Precision::fp32, backend::Precision::bf16,
                                             backend::Precision::fp16, backend::Precision::tf32}) {
    add(vaecf::to_string(precision), {.device = backend::DeviceChoice::cuda, .precision = precision});
  }
  add("host_rows", {.device = backend::DeviceChoice::cuda,
                    .precision = backend::Precision::bf16,
                    .resident = Toggle::off});
  return all;
}

std::vector<ContractDevice> small_cuda_devices() {
  return {};
}

}  // namespace vaecf::testing
