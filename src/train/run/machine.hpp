#pragma once

#include <vaecf/comm/communicator.hpp>

#include <chrono>
#include <cstdint>
#include <string>

namespace vaecf::train {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Describes the machine of a timing: "AMD EPYC 9V74 80-Core Processor, 2 cores, 24 GiB".
std::string machine_description();

/// Return the cores of this host, and those of them that this process may run on.
std::int64_t cores_of_host();
std::int64_t cores_of_process();
/// Returns those that all ranks of a host together may run on; of several hosts, the fewest. Collective.
std::int64_t cores_of_ranks(comm::Communicator& ranks);

/// The most memory that this process ever held; 0 where the system does not tell.
double peak_memory_mib();

}  // namespace vaecf::train
