#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

namespace vaecf {

/// Returns the name of this host, or "unknown" if gethostname() fails. In a header of its own because nothing
/// else in base makes system calls.
inline std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

/// Memory of this host in bytes, within the limits of the control groups of this process: those of a
/// container, or of a job under Slurm.
struct HostMemory {
  std::int64_t total = 0;
  std::int64_t available = 0;  ///< without swapping, and within the limits of all control groups
  std::int64_t limit = 0;      ///< smallest limit of a control group; 0: none is below `total`
};

/// Queries the memory, on Linux. All values are 0 if the system does not provide them. `root` replaces / in
/// tests.
HostMemory host_memory(const std::string& root = "");

/// Returns the CPU limit of this process in cores: the smallest quota of its control group and of all groups
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
