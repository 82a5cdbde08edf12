#include "app/doctor/doctor.hpp"

#include <vaecf/base/format.hpp>
#include <vaecf/base/host.hpp>

#include <netdb.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace vaecf::app {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Returns the text behind `key` and a colon; empty if there is no such line.
std::string line_value(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key)) continue;
    const auto colon = line.find(':');
    const auto begin = colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

/// The number that `text` begins with; 0 if there is none.
std::int64_t number(const std::string& text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::vector<std::string> instructions_of(const std::string& cpuinfo) {
  constexpr std::array<const char*, 6> known = {"avx2",        "fma",      "avx512f",
                                                "avx512_bf16", "amx_tile", "amx_bf16"};
  const std::string flags = " " + line_value(cpuinfo, "flags") + " ";
  std::vector<std::string> found;
  for (const std::string name : known) {
    if (flags.find(" " + name + " ") != std::string::npos) found.push_back(name);
  }
  return found;
}

/// Both generations of control groups, as a container sees its own: "QUOTA PERIOD", each "max" or -1 if there
/// is no limit.
double cpu_limit(const std::string& root) {
  const std::string folder = root + "/sys/fs/cgroup/";
  std::istringstream numbers(text_of(folder + "cpu.max") + text_of(folder + "cpu/cpu.cfs_quota_us") +
                             text_of(folder + "cpu/cpu.cfs_period_us"));
  double quota = 0.0;
  double period = 0.0;
  numbers >> quota >> period;
  return quota > 0.0 && period > 0.0 ? quota / period : 0.0;
}

/// Limits beyond the memory itself are none.
std::int64_t memory_limit(const std::string& root, std::int64_t memory) {
  for (const char* file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    const std::int64_t limit = number(text_of(root + file));
    if (limit > 0 && limit < memory) return limit;
  }
  return 0;
}

void look_up_name(HostFacts& facts) {
  facts.name = host_name();
  const auto begin = std::chrono::steady_clock::now();
  addrinfo* found = nullptr;
  (void)getaddrinfo(facts.name.c_str(), nullptr, nullptr, &found);
  if (found != nullptr) freeaddrinfo(found);
  facts.name_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

bool holds_anything(const std::string& folder) {
  std::error_code none;
  return std::filesystem::directory_iterator(folder, none) != std::filesystem::directory_iterator();
}

constexpr std::int64_t mib = std::int64_t{1} << 20;

double gibibytes(std::int64_t bytes) {
  return static_cast<double>(bytes) / 1073741824.0;
}

Finding check_memory(const HostFacts& facts, int ranks) {
  std::string text = format("{:.1f} GiB, {:.1f} GiB of it available", gibibytes(facts.memory),
                            gibibytes(facts.memory_available));
  std::int64_t usable = facts.memory_available;
  if (facts.memory_limit > 0) {
    text += format("; this container may use {:.1f} GiB", gibibytes(facts.memory_limit));
    usable = std::min(usable, facts.memory_limit);
  }
  // A model of MovieLens 20M's size with moments, gradient and batch takes about 1 GiB.
  return warn_if(
      gibibytes(usable) < ranks, "memory", text,
      format(
          "models of MovieLens 20M's size need 1 GiB for each of {} ranks: end other programs, start fewer ranks here, or use a smaller model or batch",
          ranks));
}

Finding check_shared_memory(const HostFacts& facts, int ranks, bool gpus) {
  if (facts.shared_memory_free < 0) {
    return warn_if(ranks > 1, "/dev/shm", "there is none",
                   "ranks of one host exchange data through it: mount a tmpfs there");
  }
  // Open MPI takes some 4 MiB for each rank, NCCL some 10 MiB for each pair of GPUs without NVLink.
  const std::int64_t wanted = ranks <= 1 ? 0 : gpus ? 256 * mib : 16 * mib * ranks;
  return warn_if(
      facts.shared_memory_free < wanted, "/dev/shm", format("{} MiB free", facts.shared_memory_free / mib),
      format(
          "{} ranks on one host may need up to {} MiB: give a container more by --shm-size=1g, else free or enlarge it (mount -o remount,size=1g /dev/shm)",
          ranks, wanted / mib));
}

Finding check_locked_memory(const HostFacts& facts, bool gpus) {
  if (facts.locked_memory < 0) return {"memlock", Health::ok, "no limit"};
  const bool matters = gpus || facts.infiniband;
  return warn_if(
      matters && facts.locked_memory < 1024 * mib, "memlock",
      format("at most {} KiB can be locked{}", facts.locked_memory / 1024,
             matters ? "" : ", which only GPUs and InfiniBand ask for"),
      format(
          "{} needs locked memory: ulimit -l unlimited, in containers --ulimit memlock=-1, under Slurm PropagateResourceLimitsExcept=MEMLOCK",
          facts.infiniband ? "InfiniBand" : "copying to GPUs at full speed"));
}

}  // namespace

Findings check_host(const HostFacts& facts, int ranks, bool gpus) {
  const std::string instructions = joined(facts.instructions);
  return {
      warn_if(
          facts.name_seconds > 1.0, "host name",
          format("{}, looked up within {:.1f} ms", facts.name, 1e3 * facts.name_seconds),
          format(
              "each start of Open MPI waits for that, up to half a minute: add the line `127.0.1.1 {}` to /etc/hosts, or have the name server answer",
              facts.name)),
      warn_if(
          std::ranges::count(facts.instructions, "avx2") == 0, "processor",
          format("{}, {} cores, {}", facts.processor, facts.cores,
                 instructions.empty() ? "no wide instructions" : instructions),
          "products are several times slower without AVX2: if this is a virtual machine, have it pass the host's processor through"),
      warn_if(
          facts.cpu_limit > 0.0 && facts.cpu_limit < 0.99 * facts.cores, "cpu limit",
          facts.cpu_limit <= 0.0
              ? "none"
              : format("this container may use {:.1f} of {} cores", facts.cpu_limit, facts.cores),
          format(
              "more threads than that are stopped in turn, and all others wait for them: set OMP_NUM_THREADS so that ranks times threads are at most {:.0f}, or raise the limit (docker run --cpus)",
              std::max(1.0, facts.cpu_limit))),
      check_memory(facts, ranks),
      check_shared_memory(facts, ranks, gpus),
      check_locked_memory(facts, gpus)};
}

HostFacts look_at_host(const std::string& root) {
  HostFacts facts;
  look_up_name(facts);
  const std::string cpuinfo = text_of(root + "/proc/cpuinfo");
  const std::string meminfo = text_of(root + "/proc/meminfo");
  facts.processor = line_value(cpuinfo, "model name");
  facts.cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  facts.instructions = instructions_of(cpuinfo);
  facts.cpu_limit = cpu_limit(root);
  facts.memory = 1024 * number(line_value(meminfo, "MemTotal"));
  facts.memory_available = 1024 * number(line_value(meminfo, "MemAvailable"));
  facts.memory_limit = memory_limit(root, facts.memory);
  struct statvfs space {};
  if (statvfs("/dev/shm", &space) == 0) {
    facts.shared_memory_free = static_cast<std::int64_t>(space.f_bavail * space.f_frsize);
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    facts.locked_memory = static_cast<std::int64_t>(limit.rlim_cur);
  }
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 ..."
  std::istringstream words(line_value(text_of(root + "/proc/driver/nvidia/version"), "NVRM version"));
  for (std::string word; facts.nvidia_driver.empty() && words >> word;) {
    if (word.find('.') != std::string::npos && number(word) > 0) facts.nvidia_driver = word;
  }
  facts.infiniband = holds_anything(root + "/sys/class/infiniband");
  return facts;
}

}  // namespace vaecf::app
