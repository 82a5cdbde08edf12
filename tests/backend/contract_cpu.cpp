#include "backend/contract.hpp"

#include <vaecf/backend/backend.hpp>

#include <string>
#include <utility>
#include <vector>

namespace vaecf::testing {

std::vector<ContractBackend> contract_backends() {
  std::vector<ContractBackend> all;
  for (const auto& [precision, precision_name] :
       {std::pair{backend::Precision::fp32, "fp32"}, std::pair{backend::Precision::bf16, "bf16"}}) {
    for (const char* kernels : {"auto", "portable"}) {
      const backend::BackendOptions options{"cpu", precision, kernels, 2};
      all.push_back({std::string("cpu_") + precision_name + "_" + kernels,
                     [options] { return backend::make_backend(options); },
                     [](const backend::FloatBuffer& buffer) {
                       return std::vector<float>(buffer.data(), buffer.data() + buffer.size());
                     },
                     std::string(kernels) == "auto"});
    }
  }
  return all;
}

}  // namespace vaecf::testing
