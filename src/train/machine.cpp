#include "machine.hpp"

#include <vaecf/base/format.hpp>

#include <sched.h>
#include <unistd.h>

#include <fstream>
#include <string_view>

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

std::int64_t cores_of_process() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : cores_of_host();
}

double peak_memory_mib() {
  return mebibytes(line_value("/proc/self/status", "VmHWM"));
}

}  // namespace vaecf::train
