#include <vaecf/base/format.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "app/doctor/checks.hpp"

namespace vaecf::app {
namespace {

std::string cuda_version(int number) {
  return format("{}.{}", number / 1000, number % 1000 / 10);
}

/// On a host where no GPU can be used.
Finding without_gpus(const GpuQuestion& question) {
  Finding finding{"gpu", Health::ok, "no NVIDIA driver: CPU only", ""};
  if (!question.availability.compiled) {
    finding.text = "this program was built without CUDA: CPU only";
  } else if (!question.driver.empty()) {
    finding.text = format("NVIDIA driver {}, but no GPU that can be used", question.driver);
  }
  if (!question.driver.empty()) finding.health = Health::warn;  // a GPU is there that could be used
  if (question.device == "cuda") finding.health = Health::fail;
  if (finding.health != Health::ok) finding.advice = question.availability.reason + "; or device: cpu";
  return finding;
}

void add_gpus(const std::vector<cuda::GpuFacts>& gpus, Findings& findings) {
  for (std::size_t number = 0; number < gpus.size(); ++number) {
    const cuda::GpuFacts& gpu = gpus[number];
    findings.push_back({"gpu", Health::ok,
                        format("GPU {}: {}, {:.0f} GiB, compute capability {}.{}, {}, {}", number, gpu.name,
                               static_cast<double>(gpu.memory_bytes) / 1073741824.0, gpu.generation / 10,
                               gpu.generation % 10, gpu.pci, gpu.id),
                        ""});
    if (gpu.generation >= cuda::oldest_generation) continue;
    findings.back().health = Health::fail;
    findings.back().advice = "this program needs compute capability 8.0 (A100) or newer: use device: cpu";
  }
}

void add_links(const std::vector<cuda::GpuLink>& links, Findings& findings) {
  struct Kind {
    const char* text;
    const char* advice;
    std::vector<std::string> pairs;
  };
  std::array<Kind, 3> kinds = {
      {{"by NVLink", "", {}},
       {"by PCIe, directly", "", {}},
       {"only through the host's memory",
        "sums between them are slow: see nvidia-smi topo -m; virtual machines and PCIe switches with ACS on "
        "forbid direct access",
        {}}}};
  for (const cuda::GpuLink& link : links) {
    Kind& kind = kinds[!link.peer_access ? 2 : link.atomics ? 0 : 1];
    kind.pairs.push_back(format("{}-{}", link.first, link.second));
  }
  for (const Kind& kind : kinds) {
    if (kind.pairs.empty()) continue;
    findings.push_back(warn_if(*kind.advice != '\0', "links",
                               format("{}: GPUs {}", kind.text, joined(kind.pairs)), kind.advice));
  }
}

}  // namespace

Findings check_products(const std::string& fp32, const std::string& bf16, bool bf16_is_slower) {
  Findings findings = {{"products", Health::ok, "fp32: " + fp32, ""},
                       {"products", Health::ok, "bf16: " + bf16, ""}};
  if (bf16_is_slower) {
    findings.push_back({"products", Health::ok, "bf16 is slower than fp32 here",
                        "train.precision: fp32 (auto takes bf16 only if it pays)"});
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

Finding check_mpi(const std::string& description, const std::string& transports, int hosts, bool infiniband) {
  std::string text = description;
  if (!transports.empty()) text += "; transports there: " + transports;
  for (const char* name : {"OMPI_MCA_pml", "OMPI_MCA_btl", "OMPI_MCA_mtl", "UCX_TLS"}) {
    if (const char* value = std::getenv(name)) text += format("; {}={}", name, value);
  }
  if (description.find("no overlap") != std::string::npos) {
    return {"mpi", Health::warn, text,
            "gradients are not reduced beside compute: use an MPI library built with MPI_THREAD_MULTIPLE"};
  }
  const bool fast = std::ranges::any_of(std::array{"UCX", "openib", "libfabric"}, [&](const char* name) {
    return transports.find(name) != std::string::npos;
  });
  return warn_if(hosts > 1 && infiniband && !transports.empty() && !fast, "mpi", text,
                 "there is InfiniBand, but this MPI library can only use TCP: use one built with UCX");
}

Findings check_gpus(const GpuQuestion& question) {
  const cuda::CudaFacts& facts = question.facts;
  if (facts.gpus.empty()) return {without_gpus(question)};
  Findings findings = {
      {"cuda", Health::ok,
       format("driver {} for CUDA {}, runtime {}", question.driver.empty() ? "?" : question.driver,
              cuda_version(facts.driver), cuda_version(facts.runtime)),
       ""}};
  add_gpus(facts.gpus, findings);
  add_links(facts.links, findings);
  const int gpus = static_cast<int>(facts.gpus.size());
  const Health sharing = question.allow_shared_gpu ? Health::warn : Health::fail;
  // A launcher may show each rank one GPU, and each another one.
  if (question.device != "cpu" && gpus == 1 && !question.shared.empty()) {
    findings.push_back({"gpu", sharing, question.shared,
                        "start as many ranks per host as it has GPUs (mpirun --map-by ppr:N:node), check "
                        "CUDA_VISIBLE_DEVICES, or use device: cpu"});
  } else if (question.device != "cpu" && gpus > 1 && question.ranks_on_host > gpus) {
    findings.push_back(
        {"gpu", sharing, format("{} ranks on this host see {} GPUs", question.ranks_on_host, gpus),
         format("start at most {} ranks per host (mpirun --map-by ppr:{}:node), make more GPUs "
                "visible (CUDA_VISIBLE_DEVICES), or use device: cpu",
                gpus, gpus)});
  }
  if (question.nccl.empty()) {
    findings.push_back({"nccl", question.ranks_on_host > 1 ? Health::fail : Health::warn, "not built in",
                        "ranks on GPUs need it: configure again with -DVAECF_CUDA=ON"});
  } else {
    findings.push_back({"nccl", Health::ok, question.nccl, ""});
  }
  return findings;
}

}  // namespace vaecf::app
