#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/io/locks.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "app/doctor/doctor.hpp"

namespace vaecf::app {
namespace {

namespace fs = std::filesystem;

/// The folder itself, or the nearest above it that is there.
fs::path existing_part_of(const std::string& folder) {
  std::error_code none;
  fs::path path = fs::absolute(folder, none);
  while (!fs::exists(path, none) && path.has_relative_path()) path = path.parent_path();
  return path;
}

std::string cuda_version(int number) {
  return format("{}.{}", number / 1000, number % 1000 / 10);
}

/// On a host where no GPU can be used.
Finding without_gpus(const GpuQuestion& question) {
  Finding finding{"gpu", Health::ok, "no NVIDIA driver: CPU only"};
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
                               gpu.generation % 10, gpu.pci, gpu.id)});
    if (gpu.generation >= cuda::oldest_generation) continue;
    findings.back().health = Health::fail;
    findings.back().advice = "this program needs compute capability 8.0 (A100) or newer: use device: cpu";
  }
}

void add_links(const std::vector<cuda::GpuLink>& links, Findings& findings) {
  constexpr std::array kinds = {"by NVLink", "by PCIe, directly", "only through the host's memory"};
  std::map<std::size_t, std::vector<std::string>> pairs;
  for (const cuda::GpuLink& link : links) {
    const std::size_t kind = !link.peer_access ? 2 : link.atomics ? 0 : 1;
    pairs[kind].push_back(format("{}-{}", link.first, link.second));
  }
  for (const auto& [kind, of_kind] : pairs) {
    findings.push_back(warn_if(kind == 2, "links", format("{}: GPUs {}", kinds[kind], joined(of_kind)),
                               "sums between them are slow: see nvidia-smi topo -m; "
                               "virtual machines and PCIe switches with ACS on forbid direct access"));
  }
}

}  // namespace

Finding check_locks(const std::string& path) {
  const char* variable = std::getenv("HDF5_USE_FILE_LOCKING");
  const std::string setting = variable == nullptr ? "" : format(" (HDF5_USE_FILE_LOCKING={})", variable);
  switch (io::probe_locks(path)) {
    case io::Locks::work:
      return {"file locks", Health::ok, "work where the data are" + setting};
    case io::Locks::unsupported:
      return {
          "file locks", Health::warn, "the file system of the data has none" + setting,
          "vaecf_dist reads without them, but h5py and others may refuse to open the file: HDF5_USE_FILE_LOCKING=FALSE in their environment"};
    case io::Locks::held:
      return {"file locks", Health::warn, format("another program has {} open for writing", path),
              "let it finish first: what is read meanwhile may be half-written"};
    case io::Locks::unknown:
      break;
  }
  return {"file locks", Health::ok, format("not tried: the folder of {} cannot be opened", path)};
}

Finding check_data(const std::string& path) {
  try {
    const io::DatasetFile file(path);
    return {"data", Health::ok,
            format("{}: {} train users, {} items (fingerprint {})", path, file.rows("train"), file.items(),
                   file.fingerprint())};
  } catch (const Error& error) {
    return {"data", Health::fail, error.what(),
            "make it by vaecf_dist prepare, and have it on the same path on all hosts"};
  }
}

Finding check_run_folder(const std::string& folder, std::int64_t wanted) {
  const fs::path there = existing_part_of(folder);
  std::error_code error;
  const auto free = static_cast<double>(fs::space(there, error).available);
  if (error || !fs::is_directory(there) || access(there.c_str(), W_OK | X_OK) != 0) {
    return {"run folder", Health::fail, format("{} cannot be written", there.string()),
            "set run.directory to a folder that can be written"};
  }
  constexpr double gib = 1073741824.0;
  const auto needed = static_cast<double>(wanted);
  return warn_if(
      free < needed, "run folder", format("{}: {:.1f} GiB free", folder, free / gib),
      format(
          "checkpoints of such a run take {:.1f} GiB: free some, lower run.keep, or set run.directory to another disk",
          needed / gib));
}

Findings check_products(const std::string& fp32, const std::string& bf16, bool bf16_is_slower) {
  Findings findings = {{"products", Health::ok, "fp32: " + fp32}, {"products", Health::ok, "bf16: " + bf16}};
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
              cuda_version(facts.driver), cuda_version(facts.runtime))}};
  add_gpus(facts.gpus, findings);
  add_links(facts.links, findings);
  if (question.device != "cpu" && !question.shared.empty()) {
    findings.push_back(
        {"gpu", question.allow_shared_gpu ? Health::warn : Health::fail, question.shared,
         "start as many ranks per host as it has GPUs (mpirun --map-by ppr:N:node), check CUDA_VISIBLE_DEVICES, or use device: cpu"});
  }
  if (question.nccl.empty()) {
    findings.push_back({"nccl", question.ranks_on_host > 1 ? Health::fail : Health::warn, "not built in",
                        "ranks on GPUs need it: configure again with -DVAECF_CUDA=ON"});
  } else {
    findings.push_back({"nccl", Health::ok, question.nccl});
  }
  return findings;
}

}  // namespace vaecf::app
