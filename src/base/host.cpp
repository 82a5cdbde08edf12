#include <vaecf/base/host.hpp>

#include <sched.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

namespace vaecf {
namespace {

namespace fs = std::filesystem;

/// Returns the number after `key` at the beginning of a line of the file; 0 if there is none.
std::int64_t number_in(const fs::path& path, const std::string& key = "") {
  std::ifstream lines(path);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(key)) return std::strtoll(line.c_str() + key.size(), nullptr, 10);
  }
  return 0;
}

/// Returns the path of this process's cgroup for `controller` in /proc/self/cgroup, whose lines are
/// "ID:CONTROLLERS:PATH", with no controllers in version 2; "/" if there is none.
fs::path cgroup_of_process(const fs::path& top, const std::string& controller) {
  std::ifstream lines(top / "proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    const std::size_t controllers = line.find(':');
    const std::size_t path = line.find(':', controllers + 1);
    if (controllers == std::string::npos || path == std::string::npos) continue;
    const std::string names = "," + line.substr(controllers + 1, path - controllers - 1) + ",";
    if (names.find("," + controller + ",") != std::string::npos) return line.substr(path + 1);
  }
  return "/";
}

/// Returns the folders of this process's cgroup and of all cgroups around it, whose limits all apply.
/// `mount`: folder of the hierarchy; `controller`: its name in version 1, empty in version 2.
std::vector<fs::path> cgroup_folders(const fs::path& top, const char* mount, const std::string& controller) {
  std::vector<fs::path> folders;
  // In a container, the files of its cgroup are in the mounted folder, whatever path the kernel states.
  fs::path cgroup = cgroup_of_process(top, controller);
  for (bool more = true; more; cgroup = cgroup.parent_path()) {
    more = cgroup.has_relative_path();
    folders.push_back(top / mount / cgroup.relative_path());
  }
  return folders;
}

/// Names of the files of a cgroup for memory, in version 2 and version 1 of cgroups.
struct MemoryFiles {
  const char* mount;
  const char* controller;
  const char* limit;
  const char* usage;
  const char* prefix;  ///< start of the keys in memory.stat that include inner cgroups
};
constexpr std::array<MemoryFiles, 2> memory_files{
    {{"sys/fs/cgroup", "", "memory.max", "memory.current", ""},
     {"sys/fs/cgroup/memory", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"}}};

/// Returns the CPU limit in cores of one cgroup: "QUOTA PERIOD" in one file in version 2, in two in
/// version 1, with "max" or -1 for no limit; 0 if there is none.
double cpu_limit_of(const fs::path& cgroup) {
  std::ifstream both(cgroup / "cpu.max");
  std::ifstream quota_file(cgroup / "cpu.cfs_quota_us");
  std::ifstream period_file(cgroup / "cpu.cfs_period_us");
  double quota = 0.0;
  double period = 0.0;
  if (!(both >> quota >> period)) {
    quota_file >> quota;
    period_file >> period;
  }
  return quota > 0.0 && period > 0.0 ? quota / period : 0.0;
}

}  // namespace

std::string cpu_info(const std::string& key, const std::string& root) {
  std::ifstream lines(root + "/proc/cpuinfo");
  for (std::string line; std::getline(lines, line);) {
    const std::size_t value = line.find_first_not_of(" \t", line.find(':') + 1);
    if (line.starts_with(key) && value != std::string::npos) return line.substr(value);
  }
  return "";
}

std::string describe_host() {
  const std::string processor = cpu_info("model name");
  return format("{}, {} cores, {:.0f} GiB", processor.empty() ? "unknown processor" : processor, host_cores(),
                static_cast<double>(host_memory().total) / 1073741824.0);
}

std::int64_t host_cores() {
  return sysconf(_SC_NPROCESSORS_ONLN);
}

std::vector<int> cores_of_process(int process) {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(process, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

std::int64_t process_cores() {
  const std::vector<int> cores = cores_of_process(0);
  return cores.empty() ? host_cores() : static_cast<std::int64_t>(cores.size());
}

double peak_memory_mib() {
  // getrusage() is not used: its maximum includes the process that called exec() for this program.
  return static_cast<double>(number_in("/proc/self/status", "VmHWM:")) / 1024.0;  // from kB
}

HostMemory host_memory(const std::string& root) {
  const fs::path top = root + "/";
  constexpr std::int64_t kib = 1024;
  HostMemory memory;
  memory.total = kib * number_in(top / "proc/meminfo", "MemTotal:");
  memory.available = kib * number_in(top / "proc/meminfo", "MemAvailable:");
  for (const MemoryFiles& files : memory_files) {
    for (const fs::path& folder : cgroup_folders(top, files.mount, files.controller)) {
      const std::int64_t limit = number_in(folder / files.limit);
      if (limit <= 0 || limit >= memory.total) continue;
      if (memory.limit == 0 || limit < memory.limit) memory.limit = limit;
      // Cached pages of files count as used, but the kernel frees them, as in MemAvailable.
      std::int64_t used = number_in(folder / files.usage);
      for (const char* pages : {"active_file ", "inactive_file "})
        used -= number_in(folder / "memory.stat", std::string(files.prefix) + pages);
      memory.available = std::clamp(limit - used, std::int64_t{0}, memory.available);
    }
  }
  return memory;
}

double cpu_limit(const std::string& root) {
  double limit = 0.0;
  for (const auto& [mount, controller] :
       {std::pair("sys/fs/cgroup", ""), std::pair("sys/fs/cgroup/cpu", "cpu")}) {
    for (const fs::path& folder : cgroup_folders(root + "/", mount, controller)) {
      const double own = cpu_limit_of(folder);
      if (own > 0.0 && (limit == 0.0 || own < limit)) limit = own;
    }
  }
  return limit;
}

double missing_memory(double bytes) {
  const HostMemory memory = host_memory();
  return memory.total > 0 ? std::max(0.0, bytes - static_cast<double>(memory.available)) : 0.0;
}

BusyError memory_error(const std::string& what, double bytes, double missing, const std::string& advice) {
  constexpr double gib = 1073741824.0;
  return BusyError(
      format("{} takes {:.1f} GiB per host, {:.1f} GiB more than are free; "
             "start fewer ranks per host, use larger hosts, or set {}",
             what, bytes / gib, missing / gib, advice));
}

}  // namespace vaecf
