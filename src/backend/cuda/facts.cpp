#include <vaecf/backend/cuda_facts.hpp>
#include <vaecf/base/format.hpp>

#include <cuda_runtime_api.h>

#include "check.cuh"
#include "uuid_text.hpp"

namespace vaecf::cuda {
namespace {

int attribute(cudaDeviceP2PAttr what, int first, int second) {
  int value = 0;
  check(cudaDeviceGetP2PAttribute(&value, what, first, second), "asking how GPUs reach each other");
  return value;
}

GpuFacts facts_of(int index) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "asking what GPU it is");
  return {properties.name, uuid_text(properties.uuid),
          format("{:04x}:{:02x}:{:02x}", properties.pciDomainID, properties.pciBusID, properties.pciDeviceID),
          static_cast<std::int64_t>(properties.totalGlobalMem), 10 * properties.major + properties.minor};
}

}  // namespace

CudaFacts cuda_facts() {
  CudaFacts facts;
  if (cudaDriverGetVersion(&facts.driver) != cudaSuccess) facts.driver = 0;
  if (cudaRuntimeGetVersion(&facts.runtime) != cudaSuccess) facts.runtime = 0;
  cudaGetLastError();  // the runtime keeps an error for the next call to find
  const int devices = availability().devices;
  for (int i = 0; i < devices; ++i) facts.gpus.push_back(facts_of(i));
  for (int first = 0; first < devices; ++first) {
    for (int second = first + 1; second < devices; ++second) {
      facts.links.push_back({first, second, attribute(cudaDevP2PAttrAccessSupported, first, second) != 0,
                             attribute(cudaDevP2PAttrNativeAtomicSupported, first, second) != 0});
    }
  }
  return facts;
}

}  // namespace vaecf::cuda
