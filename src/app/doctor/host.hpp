#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/doctor/check_result.hpp"

namespace vaecf::app {

/// Properties of this host and limits of this process, as reported by the system.
struct HostInfo {
  std::string name;
  double name_lookup_seconds = 0.0;  ///< duration of the lookup of the host name
  std::string processor;
  int cores = 0;
  std::vector<std::string> instructions;  ///< relevant extensions: "avx2", "avx512f", ...
  double cpu_limit = 0.0;                 ///< CPU limit of the container or job in cores; 0: none
  std::int64_t memory = 0;                ///< total memory in bytes
  std::int64_t memory_available = 0;      ///< bytes, within the limits of the container or job
  std::int64_t memory_limit = 0;          ///< limit of the container or job in bytes; 0: none
  std::int64_t shared_memory_free = -1;   ///< bytes free in /dev/shm; -1: it does not exist
  std::int64_t locked_memory = -1;        ///< bytes that this process may lock; -1: unlimited
  std::int64_t processes = -1;            ///< this user's processes and threads at most; -1: unlimited
  std::string nvidia_driver;              ///< version; empty: not loaded
  bool infiniband = false;
};

/// Queries this host, on Linux. `root` replaces / in tests, except for the sizes of mounts and the limits of
/// the process.
HostInfo query_host_info(const std::string& root = "");
/// Checks a host for `ranks` ranks on it, with GPUs or without.
CheckResults check_host(const HostInfo& facts, int ranks, bool gpus);

}  // namespace vaecf::app
