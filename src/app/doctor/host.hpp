#pragma once

#include "app/doctor/finding.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vaecf::app {

/// What the system says of this host, and of the limits of this process.
struct HostFacts {
  std::string name;
  double name_seconds = 0.0;  ///< that it took to look the name up
  std::string processor;
  int cores = 0;
  std::vector<std::string> instructions;  ///< of those that matter here: "avx2", "avx512f", ...
  double cpu_limit = 0.0;                 ///< cores' worth of time that a container may use; 0: no limit
  std::int64_t memory = 0;                ///< bytes
  std::int64_t memory_available = 0;
  std::int64_t memory_limit = 0;         ///< of a container; 0: none
  std::int64_t shared_memory_free = -1;  ///< in /dev/shm; -1: there is none
  std::int64_t locked_memory = -1;       ///< that this process may lock; -1: any amount
  std::string nvidia_driver;             ///< its version, if one is loaded
  bool infiniband = false;
};

/// Linux. `root` stands for / in tests; sizes of mounts and limits of the process are the real ones.
HostFacts look_at_host(const std::string& root = "");

/// What a host's facts mean for `ranks` ranks on it, with GPUs or without.
Findings check_host(const HostFacts& facts, int ranks, bool gpus);

}  // namespace vaecf::app
