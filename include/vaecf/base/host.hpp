#pragma once

#include <vaecf/base/failure.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace vaecf {

/// Returns the name of this host, or "unknown" if gethostname() fails.
inline std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

/// Returns the value of `key` of the first processor in /proc/cpuinfo, such as "model name"; empty if there
/// is none. `root` replaces / in tests.
std::string cpu_info(const std::string& key, const std::string& root = "");

/// Returns a description of this host, such as "AMD EPYC 9V74 80-Core Processor, 2 cores, 24 GiB".
std::string describe_host();

std::int64_t host_cores();

/// Returns the cores in the affinity mask of a process (0: this one), ascending; empty if it cannot be
/// queried.
std::vector<int> cores_of_process(int process);

std::int64_t process_cores();

/// Memory of this host in bytes, within the limits of the cgroups of this process: those of a
/// container, or of a job under Slurm.
struct HostMemory {
  std::int64_t total = 0;
  std::int64_t available = 0;  ///< without swapping, and within the limits of all cgroups
  std::int64_t limit = 0;      ///< smallest limit of a cgroup; 0: none is below `total`
};

/// Queries the memory, on Linux. All values are 0 if the system does not provide them. `root` replaces / in
/// tests.
HostMemory host_memory(const std::string& root = "");

/// Returns the memory in bytes that is available to this process, as host_memory(); 0 if the system does not
/// provide it.
inline double free_memory_bytes() {
  return static_cast<double>(host_memory().available);
}

/// Returns by how many bytes `bytes` exceed the free memory of this host; 0 if they fit, or if it is unknown.
double missing_memory(double bytes);
/// Returns the error that `what` takes `bytes` on a host, of which `missing` are not free; `advice` is a
/// setting to use instead.
BusyError memory_error(const std::string& what, double bytes, double missing, const std::string& advice);

/// Returns the peak resident memory of this process in MiB; 0 if the system does not provide it.
double peak_memory_mib();

/// Returns the CPU limit of this process in cores: the smallest quota of its cgroup and of all cgroups
/// around it, as of a container; 0 if there is none. Linux suspends threads beyond it. `root` replaces / in
/// tests.
double cpu_limit(const std::string& root = "");

/// Returns the number of threads that can run at once on `cores` cores with the CPU limit `limit` (0: none);
/// at least 1.
inline int cores_within(double limit, int cores) {
  constexpr double rounding = 1e-6;
  const bool limited = limit > 0.0 && limit < cores;
  return std::max(1, limited ? static_cast<int>(limit + rounding) : cores);
}

}  // namespace vaecf
