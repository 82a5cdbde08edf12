#include <vaecf/base/format.hpp>

#include "app/doctor/library_checks.hpp"

namespace vaecf::app {
namespace {

std::string cuda_version(int number) {
  return format("{}.{}", number / 1000, number % 1000 / 10);
}

/// Where there is none to be used.
Finding without_gpus(const GpuQuestion& question) {
  const std::string& reason = question.availability.reason;
  Finding finding{"gpu", Health::ok, "", ""};
  if (!question.availability.compiled) {
    finding.text = "this program was built without CUDA: CPU only";
  } else if (question.driver.empty()) {
    finding.text = "no NVIDIA driver: CPU only";
  } else {
    finding.text = format("NVIDIA driver {}, but no GPU that can be used", question.driver);
  }
  if (question.device == "cuda") {
    finding.health = Health::fail;
  } else if (!question.driver.empty()) {
    finding.health = Health::warn;  // there is a GPU that this program could use
  }
  if (finding.health != Health::ok) finding.advice = reason + "; or device: cpu";
  return finding;
}

Finding describe(const cuda::GpuFacts& gpu, std::size_t number) {
  Finding finding{"gpu", Health::ok,
                  format("GPU {}: {}, {:.0f} GiB, compute capability {}.{}, {}, {}", number, gpu.name,
                         static_cast<double>(gpu.memory_bytes) / 1073741824.0, gpu.generation / 10,
                         gpu.generation % 10, gpu.pci, gpu.id),
                  ""};
  if (gpu.generation < cuda::oldest_generation) {
    finding.health = Health::fail;
    finding.advice = "this program needs compute capability 8.0 (A100) or newer: use device: cpu";
  }
  return finding;
}

std::vector<Finding> check_links(const std::vector<cuda::GpuLink>& links) {
  std::string nvlink;
  std::string pcie;
  std::string host;
  for (const cuda::GpuLink& link : links) {
    std::string& list = !link.peer_access ? host : link.atomics ? nvlink : pcie;
    list += format("{}{}-{}", list.empty() ? "" : ", ", link.first, link.second);
  }
  std::vector<Finding> findings;
  if (!nvlink.empty()) findings.push_back({"links", Health::ok, "by NVLink: GPUs " + nvlink, ""});
  if (!pcie.empty()) findings.push_back({"links", Health::ok, "by PCIe, directly: GPUs " + pcie, ""});
  if (!host.empty()) {
    findings.push_back({"links", Health::warn, "only through the host's memory: GPUs " + host,
                        "sums between them are slow: see nvidia-smi topo -m; virtual machines and PCIe "
                        "switches with ACS on forbid direct access"});
  }
  return findings;
}

}  // namespace

std::vector<Finding> check_gpus(const GpuQuestion& question) {
  const cuda::CudaFacts& facts = question.facts;
  if (facts.gpus.empty()) return {without_gpus(question)};
  std::vector<Finding> findings = {
      {"cuda", Health::ok,
       format("driver {} for CUDA {}, runtime {}", question.driver.empty() ? "?" : question.driver,
              cuda_version(facts.driver), cuda_version(facts.runtime)),
       ""}};
  for (std::size_t i = 0; i < facts.gpus.size(); ++i) findings.push_back(describe(facts.gpus[i], i));
  for (Finding& finding : check_links(facts.links)) findings.push_back(std::move(finding));
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
