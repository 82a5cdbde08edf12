#include "machine.hpp"

#include <vaecf/base/format.hpp>

#include <sched.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace vaecf::train {
namespace {

/// What follows `key` and a colon in a file of the system; empty where there is no such line.
std::string line_value(const char* file, std::string_view key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t begin = line.find_first_not_of(" \t", line.find(':') + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

/// Given in kB.
double mebibytes(const std::string& value) {
  return value.empty() ? 0.0 : std::stod(value) / 1024.0;
}

}  // namespace

std::string machine_description() {
  std::string text = line_value("/proc/cpuinfo", "model name");
  if (text.empty()) text = "a processor without a name";
  text += format(", {} cores", cores_of_host());
  const double memory = mebibytes(line_value("/proc/meminfo", "MemTotal"));
  if (memory > 0.0) text += format(", {:.0f} GiB", memory / 1024.0);
  return text;
}

std::int64_t cores_of_host() {
  return sysconf(_SC_NPROCESSORS_ONLN);
}

std::int64_t cores_of_ranks(comm::Communicator& ranks) {
  struct Place {
    std::size_t host;
    cpu_set_t cores;
  };
  static_assert(std::is_trivially_copyable_v<Place>);
  Place own{};
  own.host = std::hash<std::string>{}(ranks.host());
  // Where the kernel does not tell, as of more cores than a set holds, any will do.
  if (sched_getaffinity(0, sizeof(own.cores), &own.cores) != 0) {
    for (std::int64_t core = 0; core < cores_of_host(); ++core) CPU_SET(core, &own.cores);
  }
  std::vector<Place> all(static_cast<std::size_t>(ranks.size()));
  ranks.all_gather(std::span<const char>(reinterpret_cast<const char*>(&own), sizeof(own)),
                   std::span<char>(reinterpret_cast<char*>(all.data()), all.size() * sizeof(own)));
  Place here = own;
  for (const Place& rank : all) {
    if (rank.host == own.host) CPU_OR(&here.cores, &here.cores, &rank.cores);
  }
  return ranks.all_reduce(std::int64_t{CPU_COUNT(&here.cores)}, comm::Reduction::min);
}

std::int64_t cores_of_process() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : cores_of_host();
}

double peak_memory_mib() {
  return mebibytes(line_value("/proc/self/status", "VmHWM"));
}

}  // namespace vaecf::train
