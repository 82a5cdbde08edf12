#pragma once

#include <vaecf/base/host.hpp>
#include <vaecf/comm/communicator.hpp>

#include <chrono>
#include <cstdint>
#include <string>

namespace vaecf::train {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Returns a description of this host, such as "AMD EPYC 9V74 80-Core Processor, 2 cores, 24 GiB".
std::string describe_host();

/// Returns the number of cores of this host.
std::int64_t host_cores();
/// Returns the number of cores in the affinity mask of this process.
std::int64_t process_cores();
/// Returns the number of cores in the combined affinity mask of all ranks of a host, within the CPU limit of
/// their container or job; the minimum over hosts. Collective.
std::int64_t usable_cores(comm::Communicator& ranks);

/// Returns the memory in bytes that is available to this process, as host_memory() of base; 0 if the system
/// does not provide it.
inline double free_memory_bytes() {
  return static_cast<double>(host_memory().available);
}
/// Returns the peak resident memory of this process in MiB; 0 if the system does not provide it.
double peak_memory_mib();

}  // namespace vaecf::train
