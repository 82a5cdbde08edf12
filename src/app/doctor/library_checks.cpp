#include "app/doctor/library_checks.hpp"

#include <vaecf/base/format.hpp>

#include <algorithm>
#include <cstdlib>

namespace vaecf::app {
namespace {

bool any_has(const std::vector<std::string>& names, const char* part) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return name.find(part) != std::string::npos; });
}

}  // namespace

std::vector<Finding> check_products(const train::MachineRates& rates) {
  std::vector<Finding> findings = {{"products", Health::ok, "fp32: " + rates.fp32_products, ""},
                                   {"products", Health::ok, "bf16: " + rates.bf16_products, ""}};
  if (rates.bf16_gflops < rates.fp32_gflops) {
    findings.push_back({"products", Health::ok, "bf16 is slower than fp32 here",
                        "train.precision: fp32 (auto takes bf16 only where it pays)"});
  }
  if (const char* type = std::getenv("OPENBLAS_CORETYPE")) {
    findings.push_back({"products", Health::ok,
                        format("OPENBLAS_CORETYPE={} changes nothing here: products are oneDNN's", type),
                        ""});
  }
  for (const char* name : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {
    if (const char* value = std::getenv(name)) {
      findings.push_back(
          {"products", Health::warn,
           format("{}={} keeps oneDNN from some of this processor's instructions", name, value),
           format("unset {}", name)});
    }
  }
  return findings;
}

Finding check_mpi(const std::string& description, const comm::MpiTransports& transports, int hosts,
                  bool infiniband) {
  std::string text = description;
  if (!transports.names.empty()) text += "; transports there: " + joined(transports.names);
  if (!transports.chosen_by.empty()) text += "; set: " + joined(transports.chosen_by);
  if (description.find("no overlap") != std::string::npos) {
    return {"mpi", Health::warn, text,
            "gradients are not reduced beside compute: use an MPI library built with MPI_THREAD_MULTIPLE"};
  }
  const bool fast = any_has(transports.names, "UCX") || any_has(transports.names, "openib") ||
                    any_has(transports.names, "libfabric");
  if (hosts > 1 && infiniband && !transports.names.empty() && !fast) {
    return {"mpi", Health::warn, text,
            "there is InfiniBand, but this MPI library can only use TCP: use one built with UCX"};
  }
  return {"mpi", Health::ok, text, ""};
}

}  // namespace vaecf::app
