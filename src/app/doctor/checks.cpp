#include "app/doctor/checks.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/io/file_lock.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "app/cores.hpp"
#include "app/doctor/check_result.hpp"

namespace vaecf::app {
namespace {
namespace fs = std::filesystem;

fs::path existing_part_of(const std::string& folder) {
  std::error_code none;
  fs::path path = fs::absolute(folder, none);
  while (!fs::exists(path, none) && path.has_relative_path()) path = path.parent_path();
  return path;
}

/// Formats CUDA's version number: 12040 as "12.4".
std::string cuda_version(int number) {
  return format("{}.{}", number / 1000, number % 1000 / 10);
}

CheckResult without_gpus(const GpuCheckInput& question) {
  CheckResult finding{"gpu", Severity::ok, "no NVIDIA driver, CPU only"};
  if (!question.availability.compiled) {
    finding.text = "built without CUDA, CPU only";
  } else if (!question.driver.empty()) {
    finding.text = format("NVIDIA driver {}, but no usable GPU", question.driver);
  }
  if (!question.driver.empty()) finding.severity = Severity::warn;  // a GPU exists, but cannot be used
  if (question.device == device::DeviceChoice::cuda) finding.severity = Severity::fail;
  if (finding.severity != Severity::ok)
    finding.advice = question.availability.reason + "; or set device: cpu";
  return finding;
}

void add_gpus(const std::vector<cuda::GpuInfo>& gpus, CheckResults& findings) {
  for (std::size_t number = 0; number < gpus.size(); ++number) {
    const cuda::GpuInfo& gpu = gpus[number];
    findings.push_back({"gpu", Severity::ok,
                        format("GPU {}: {}, {:.0f} GiB, compute capability {}.{}, {}, {}", number, gpu.name,
                               static_cast<double>(gpu.memory_bytes) / 1073741824.0,
                               gpu.compute_capability / 10, gpu.compute_capability % 10, gpu.pci, gpu.id)});
    if (gpu.compute_capability >= cuda::min_compute_capability) continue;
    findings.back().severity = Severity::fail;
    findings.back().advice = "compute capability 8.0 (A100) or newer is required; set device: cpu";
  }
}

void add_links(const std::vector<cuda::GpuLink>& links, CheckResults& findings) {
  constexpr std::array kinds = {"NVLink", "direct PCIe access", "through host memory only"};
  std::map<std::size_t, std::vector<std::string>> pairs;
  for (const cuda::GpuLink& link : links) {
    const std::size_t kind = !link.peer_access ? 2 : link.atomics ? 0 : 1;
    pairs[kind].push_back(format("{}-{}", link.first, link.second));
  }
  for (const auto& [kind, of_kind] : pairs) {
    findings.push_back(warn_if(kind == 2, "links", format("{}: GPUs {}", kinds[kind], join(of_kind)),
                               "all-reduces between them are slow; see nvidia-smi topo -m: "
                               "virtual machines and PCIe switches with ACS enabled prevent direct access"));
  }
}

}  // namespace

CheckResult check_locks(const std::string& path) {
  const char* variable = std::getenv("HDF5_USE_FILE_LOCKING");
  const std::string setting = variable == nullptr ? "" : format(" (HDF5_USE_FILE_LOCKING={})", variable);
  switch (io::probe_file_lock(path)) {
    case io::FileLockStatus::available:
      return {"file locks", Severity::ok, "supported by the file system of the data" + setting};
    case io::FileLockStatus::unsupported:
      return {
          "file locks", Severity::warn, "not supported by the file system of the data" + setting,
          "vaecf_dist does not need them, but h5py and others may fail to open the file; set HDF5_USE_FILE_LOCKING=FALSE for them"};
    case io::FileLockStatus::held:
      return {"file locks", Severity::warn, format("another program has {} open for writing", path),
              "wait until it has finished; the file may be incomplete"};
    case io::FileLockStatus::unknown:
      break;
  }
  return {"file locks", Severity::ok, format("not checked: the folder of {} cannot be opened", path)};
}

CheckResult check_data(const std::string& path) {
  try {
    const io::DatasetFile file(path);
    file.require_unique_ids();
    return {"data", Severity::ok,
            format("{}: {} train users, {} items (fingerprint {})", path, file.rows("train"), file.items(),
                   file.fingerprint())};
  } catch (const io::FileInUseError& error) {
    return {"data", Severity::fail, error.what()};
  } catch (const Error& error) {
    return {"data", Severity::fail, error.what(),
            "create it with vaecf_dist prepare, under the same path on all hosts"};
  }
}

CheckResult check_run_folder(const std::string& folder, std::int64_t wanted) {
  const fs::path there = existing_part_of(folder);
  std::error_code error;
  const auto free = static_cast<double>(fs::space(there, error).available);
  if (error || !fs::is_directory(there) || access(there.c_str(), W_OK | X_OK) != 0) {
    return {"run folder", Severity::fail, format("{} is not writable", there.string()),
            "set run.directory to a writable folder"};
  }
  constexpr double gib = 1073741824.0;
  const auto needed = static_cast<double>(wanted);
  return warn_if(
      free < needed, "run folder", format("{}: {:.1f} GiB free", folder, free / gib),
      format(
          "the checkpoints of this run need {:.1f} GiB; free some space, lower run.keep_checkpoints, or set run.directory to another disk",
          needed / gib));
}

CheckResults check_gemm(const std::string& fp32, const std::string& bf16, bool bf16_is_slower) {
  CheckResults findings = {{"products", Severity::ok, "fp32: " + fp32},
                           {"products", Severity::ok, "bf16: " + bf16}};
  if (bf16_is_slower) {
    findings.push_back({"products", Severity::ok, "bf16 is slower than fp32 here",
                        "set train.precision: fp32 (auto selects bf16 only if it is faster)"});
  }
  for (const char* name : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {
    if (const char* value = std::getenv(name)) {
      findings.push_back(
          {"products", Severity::warn,
           format("{}={} prevents oneDNN from using all instructions of this CPU", name, value),
           format("unset {}", name)});
    }
  }
  return findings;
}

CheckResult check_mpi(const std::string& description, const std::string& transports, int hosts,
                      bool infiniband) {
  std::string text = description;
  if (!transports.empty()) text += "; transports: " + transports;
  for (const char* name : {"OMPI_MCA_pml", "OMPI_MCA_btl", "OMPI_MCA_mtl", "UCX_TLS"})
    if (const char* value = std::getenv(name)) text += format("; {}={}", name, value);
  if (description.find("no overlap") != std::string::npos) {
    return {"mpi", Severity::warn, text,
            "communication does not overlap with compute; use an MPI library with MPI_THREAD_MULTIPLE"};
  }
  const bool fast = std::ranges::any_of(std::array{"UCX", "openib", "libfabric"}, [&](const char* name) {
    return transports.find(name) != std::string::npos;
  });
  return warn_if(
      hosts > 1 && infiniband && !transports.empty() && !fast, "mpi", text,
      "InfiniBand is present, but MPI uses TCP; use an MPI library that is built with UCX, and do not set OMPI_MCA_pml");
}

CheckResults check_gpus(const GpuCheckInput& question) {
  const cuda::CudaInfo& facts = question.facts;
  if (facts.gpus.empty()) return {without_gpus(question)};
  CheckResults findings = {
      {"cuda", Severity::ok,
       format("driver {} for CUDA {}, runtime {}", question.driver.empty() ? "?" : question.driver,
              cuda_version(facts.driver), cuda_version(facts.runtime))}};
  add_gpus(facts.gpus, findings);
  add_links(facts.links, findings);
  if (question.device != device::DeviceChoice::cpu && !question.shared.empty()) {
    findings.push_back(
        {"gpu", question.allow_shared_gpu ? Severity::warn : Severity::fail, question.shared,
         "start as many ranks per host as it has GPUs (mpirun --map-by ppr:N:node), check CUDA_VISIBLE_DEVICES, or set device: cpu"});
  }
  if (question.nccl.empty()) {
    findings.push_back({"nccl", question.ranks_on_host > 1 ? Severity::fail : Severity::warn, "not built in",
                        "several ranks on GPUs need it; rebuild with -DVAECF_CUDA=ON"});
  } else {
    findings.push_back({"nccl", Severity::ok, question.nccl});
  }
  return findings;
}

CheckResult check_item_slices(const training::ItemSliceProblem& problem,
                              std::span<const run::AllReduceTiming> times) {
  // A reduce-scatter and an all-gather take as long as one all-reduce of the same size.
  const double activations =
      0.5 * training::exchanged_bytes(problem, static_cast<double>(problem.batch_users));
  const double gradient = 4.0 * (problem.table_parameters + problem.middle_parameters);
  // Latency, not bandwidth, determines the duration of smaller messages.
  constexpr std::int64_t min_bytes_for_bandwidth = std::int64_t{1} << 20;
  const std::int64_t measured = times.back().bytes;
  if (measured < min_bytes_for_bandwidth && std::max(gradient, activations) > static_cast<double>(measured)) {
    return {
        "item slices", Severity::ok,
        format(
            "communication of a step of {} users: not measured, since no all-reduce of more than {} bytes was",
            problem.batch_users, measured)};
  }
  // Linear between the measured sizes, and by the bandwidth of the largest one above it.
  const auto seconds = [&](double bytes) {
    const run::AllReduceTiming* before = &times.front();
    for (const run::AllReduceTiming& time : times) {
      if (static_cast<double>(time.bytes) >= bytes && &time != before) {
        const double part =
            (bytes - static_cast<double>(before->bytes)) / static_cast<double>(time.bytes - before->bytes);
        return before->seconds + std::max(0.0, part) * (time.seconds - before->seconds);
      }
      before = &time;
    }
    return before->seconds * bytes / static_cast<double>(before->bytes);
  };
  const double data_parallel = seconds(gradient);
  const double item_slices = seconds(activations) + seconds(4.0 * problem.middle_parameters);
  const std::string text = format(
      "a step of {} users takes about {:.1f} ms of communication with data parallelism, and {:.1f} ms with the items divided over all ranks",
      problem.batch_users, 1e3 * data_parallel, 1e3 * item_slices);
  if (2.0 * item_slices >= data_parallel || problem.items < 1024 * problem.ranks)
    return {"item slices", Severity::ok, text};
  return {"item slices", Severity::ok, text, "consider distributed.item_slices: all (docs/SCALING.md)"};
}

CheckResults check_stragglers(const io::Json& measured) {
  constexpr double much_slower = 0.7;
  const auto rates = measured[device_rates[0].key].get<std::vector<double>>();
  std::vector<double> sorted = rates;
  std::erase(sorted, 0.0);  // not measured
  if (sorted.empty()) return {};
  std::ranges::sort(sorted);
  const double usual = sorted[sorted.size() / 2];
  std::vector<int> slow;
  for (std::size_t rank = 0; rank < rates.size(); ++rank)
    if (rates[rank] > 0.0 && rates[rank] < much_slower * usual) slow.push_back(static_cast<int>(rank));
  if (slow.empty()) return {};
  return {
      {"pace", Severity::warn,
       format("on {}, ranks {}: down to {:.0f} GFLOP/s, with a median of {:.0f}",
              io::get_string(measured, "device"), format_ranges(slow), sorted.front(), usual),
       "all ranks wait for the slowest; check for other programs on its cores, for a different binding, and for different hardware; "
       "then run doctor again"}};
}

}  // namespace vaecf::app
