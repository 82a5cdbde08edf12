#include "train/run/host_info.hpp"

#include <vaecf/base/format.hpp>
#include <vaecf/io/digest.hpp>

#include <sched.h>
#include <unistd.h>

#include <fstream>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace vaecf::train {
namespace {

std::string processor() {
  std::ifstream lines("/proc/cpuinfo");
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

}  // namespace

std::string describe_host() {
  const double memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  return format("{}, {} cores, {:.0f} GiB", processor(), host_cores(), memory / 1073741824.0);
}

std::int64_t host_cores() {
  return sysconf(_SC_NPROCESSORS_ONLN);
}

std::int64_t usable_cores(comm::Communicator& ranks) {
  struct Affinity {
    std::uint64_t host;
    cpu_set_t cores;
  };
  static_assert(std::is_trivially_copyable_v<Affinity>);
  Affinity own{};
  own.host = io::xxh64(ranks.host());
  // If the kernel returns no mask, as for more cores than a cpu_set_t can contain, assume all cores.
  if (sched_getaffinity(0, sizeof(own.cores), &own.cores) != 0) {
    for (std::int64_t core = 0; core < host_cores(); ++core) CPU_SET(core, &own.cores);
  }
  std::vector<Affinity> all(static_cast<std::size_t>(ranks.size()));
  ranks.all_gather(std::span<const char>(reinterpret_cast<const char*>(&own), sizeof(own)),
                   std::span<char>(reinterpret_cast<char*>(all.data()), all.size() * sizeof(own)));
  Affinity here = own;
  for (const Affinity& rank : all) {
    if (rank.host == own.host) CPU_OR(&here.cores, &here.cores, &rank.cores);
  }
  const std::int64_t usable = cores_within(cpu_limit(), CPU_COUNT(&here.cores));
  return ranks.all_reduce(usable, comm::Reduction::min);
}

std::int64_t process_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : host_cores();
}

double peak_memory_mib() {
  // getrusage() is not used: its maximum includes the process that called exec() for this program.
  std::ifstream lines("/proc/self/status");
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view key = "VmHWM:";
    if (line.starts_with(key)) return std::stod(line.substr(key.size())) / 1024.0;  // from kB
  }
  return 0.0;
}

}  // namespace vaecf::train
