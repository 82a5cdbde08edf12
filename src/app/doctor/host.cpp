#include "app/doctor/host.hpp"

#include <vaecf/base/host.hpp>
#include <vaecf/base/timeline.hpp>

#include <netdb.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

#include "app/doctor/check_result.hpp"

namespace vaecf::app {
namespace {

/// Returns the integer at the beginning of `text`; 0 if there is none.
std::int64_t number(const std::string& text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::vector<std::string> instructions_of(const std::string& root) {
  constexpr std::array<const char*, 10> known = {"avx2",     "fma",   "avx512f", "avx512_bf16", "amx_tile",
                                                 "amx_bf16", "asimd", "sve",     "sve2",        "bf16"};
  // arm64 calls them Features.
  const std::string flags = " " + cpu_info("flags", root) + " " + cpu_info("Features", root) + " ";
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
          std::ranges::count(facts.instructions, "avx2") + std::ranges::count(facts.instructions, "asimd") ==
              0,
          "processor",
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
  // Linux on arm64 states numbers only: of Grace, implementer 0x41, part 0xd4f.
  if (facts.processor.empty())
    facts.processor =
        format("implementer {}, part {}", cpu_info("CPU implementer", root), cpu_info("CPU part", root));
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

}  // namespace vaecf::app
