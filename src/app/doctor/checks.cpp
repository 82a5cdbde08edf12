#include "app/doctor/checks.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/host.hpp>
#include <vaecf/base/timeline.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/io/file_lock.hpp>

#include <netdb.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "app/doctor/check_result.hpp"
#include "app/doctor/host.hpp"

namespace vaecf::app {
namespace {

/// Returns the integer at the beginning of `text`; 0 if there is none.
std::int64_t number(const std::string& text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::vector<std::string> instructions_of(const std::string& root) {
  constexpr std::array<const char*, 6> known = {"avx2",        "fma",      "avx512f",
                                                "avx512_bf16", "amx_tile", "amx_bf16"};
  const std::string flags = " " + cpu_info("flags", root) + " ";
  std::vector<std::string> found;
  for (const std::string name : known)
    if (flags.find(" " + name + " ") != std::string::npos) found.push_back(name);
  return found;
}

void look_up_name(HostInfo& facts) {
  facts.name = host_name();
  const auto begin = Clock::now();
  addrinfo* found = nullptr;
  (void)getaddrinfo(facts.name.c_str(), nullptr, nullptr, &found);
  if (found != nullptr) freeaddrinfo(found);
  facts.name_lookup_seconds = seconds_since(begin);
}

bool holds_anything(const std::string& folder) {
  std::error_code none;
  return std::filesystem::directory_iterator(folder, none) != std::filesystem::directory_iterator();
}

constexpr std::int64_t mib = std::int64_t{1} << 20;

double gibibytes(std::int64_t bytes) {
  return static_cast<double>(bytes) / 1073741824.0;
}

CheckResult check_memory(const HostInfo& facts, int ranks) {
  std::string text = format("{:.1f} GiB, {:.1f} GiB of it available", gibibytes(facts.memory),
                            gibibytes(facts.memory_available));
  if (facts.memory_limit > 0)
    text += format("; this container or job may use {:.1f} GiB", gibibytes(facts.memory_limit));
  // A model for MovieLens 20M with moments, gradient and batch needs about 1 GiB.
  return warn_if(
      gibibytes(facts.memory_available) < ranks, "memory", text,
      format(
          "a model of the size of MovieLens 20M needs 1 GiB for each of {} ranks; end other programs, start fewer ranks here, or use a smaller model or batch",
          ranks));
}

CheckResult check_shared_memory(const HostInfo& facts, int ranks, bool gpus) {
  if (facts.shared_memory_free < 0) {
    return warn_if(ranks > 1, "/dev/shm", "does not exist",
                   "ranks on the same host communicate through it; mount a tmpfs there");
  }
  // Open MPI needs about 4 MiB per rank, NCCL about 10 MiB per pair of GPUs without NVLink.
  const std::int64_t wanted = ranks <= 1 ? 0 : gpus ? 256 * mib : 16 * mib * ranks;
  return warn_if(
      facts.shared_memory_free < wanted, "/dev/shm", format("{} MiB free", facts.shared_memory_free / mib),
      format(
          "{} ranks on one host may need up to {} MiB; in a container use --shm-size=1g, otherwise free or enlarge it (mount -o remount,size=1g /dev/shm)",
          ranks, wanted / mib));
}

CheckResult check_locked_memory(const HostInfo& facts, bool gpus) {
  if (facts.locked_memory < 0) return {"memlock", Severity::ok, "no limit"};
  const bool matters = gpus || facts.infiniband;
  return warn_if(
      matters && facts.locked_memory < 1024 * mib, "memlock",
      format("at most {} KiB can be locked{}", facts.locked_memory / 1024,
             matters ? "" : ", which only matters for GPUs and InfiniBand"),
      format(
          "{} needs locked memory; set ulimit -l unlimited, in containers --ulimit memlock=-1, under Slurm PropagateResourceLimitsExcept=MEMLOCK",
          facts.infiniband ? "InfiniBand" : "copying to GPUs at full speed"));
}

CheckResult check_processes(const HostInfo& facts, int ranks) {
  if (facts.processes < 0) return {"processes", Severity::ok, "no limit"};
  // Each rank has some threads besides those that compute: of MPI, of signals and of files.
  const std::int64_t wanted = facts.cores + std::int64_t{16} * ranks;
  return warn_if(
      facts.processes < wanted, "processes",
      format("at most {} processes and threads of this user (RLIMIT_NPROC)", facts.processes),
      format(
          "{} ranks may start {} threads; raise the limit (ulimit -u), or set backend.threads or start fewer ranks here",
          ranks, wanted));
}

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

CheckResults check_host(const HostInfo& facts, int ranks, bool gpus) {
  const std::string instructions = join(facts.instructions);
  return {
      warn_if(
          facts.name_lookup_seconds > 1.0, "host name",
          format("{}, looked up within {:.1f} ms", facts.name, 1e3 * facts.name_lookup_seconds),
          format(
              "every start of Open MPI is delayed by the lookup, by up to 30 seconds; add the line `127.0.1.1 {}` to /etc/hosts, or fix the name server",
              facts.name)),
      warn_if(
          std::ranges::count(facts.instructions, "avx2") == 0, "processor",
          format("{}, {} cores, {}", facts.processor, facts.cores,
                 instructions.empty() ? "no AVX2" : instructions),
          "matrix products are several times slower without AVX2; in a virtual machine, enable CPU passthrough"),
      {"cpu limit", Severity::ok,
       facts.cpu_limit <= 0.0
           ? "none"
           : format("this container or job may use {:.1f} of {} cores", facts.cpu_limit, facts.cores)},
      check_memory(facts, ranks),
      check_shared_memory(facts, ranks, gpus),
      check_locked_memory(facts, gpus),
      check_processes(facts, ranks)};
}

HostInfo query_host_info(const std::string& root) {
  HostInfo facts;
  look_up_name(facts);
  facts.processor = cpu_info("model name", root);
  facts.cores = static_cast<int>(host_cores());
  facts.instructions = instructions_of(root);
  facts.cpu_limit = cpu_limit(root);
  const HostMemory memory = host_memory(root);
  facts.memory = memory.total;
  facts.memory_available = memory.available;
  facts.memory_limit = memory.limit;
  struct statvfs space {};
  if (statvfs("/dev/shm", &space) == 0)
    facts.shared_memory_free = static_cast<std::int64_t>(space.f_bavail * space.f_frsize);
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    facts.locked_memory = static_cast<std::int64_t>(limit.rlim_cur);
  if (getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    facts.processes = static_cast<std::int64_t>(limit.rlim_cur);
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 ..."
  std::ifstream words(root + "/proc/driver/nvidia/version");
  for (std::string word; facts.nvidia_driver.empty() && words >> word;)
    if (word.find('.') != std::string::npos && number(word) > 0) facts.nvidia_driver = word;
  facts.infiniband = holds_anything(root + "/sys/class/infiniband");
  return facts;
}

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
          "the checkpoints of this run need {:.1f} GiB; free some space, lower run.keep, or set run.directory to another disk",
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
  const auto users = static_cast<double>(problem.batch_users);
  const double activations = 4.0 * problem.exchanged_per_user / 2.0 * users;
  const double gradient = 4.0 * (problem.table_parameters + problem.middle_parameters);
  // Latency, not bandwidth, determines the duration of smaller messages.
  constexpr std::int64_t min_bytes_for_bandwidth = mib;
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
  // A reduce-scatter and an all-gather take as long as one all-reduce of the same size.
  const double data_parallel = seconds(gradient);
  const double item_slices = seconds(activations) + seconds(4.0 * problem.middle_parameters);
  const std::string text = format(
      "a step of {} users takes about {:.1f} ms of communication with data parallelism, and {:.1f} ms with the items divided over all ranks",
      problem.batch_users, 1e3 * data_parallel, 1e3 * item_slices);
  if (2.0 * item_slices >= data_parallel || problem.items < 1024 * problem.ranks)
    return {"item slices", Severity::ok, text};
  return {"item slices", Severity::ok, text, "consider distributed.item_slices: all (docs/ITEMS.md)"};
}

}  // namespace vaecf::app
