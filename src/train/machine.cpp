#include "machine.hpp"

#include <vaecf/base/format.hpp>

#include <unistd.h>

#include <cstdint>
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
  text += format(", {} cores", std::int64_t{sysconf(_SC_NPROCESSORS_ONLN)});
  const double memory = mebibytes(line_value("/proc/meminfo", "MemTotal"));
  if (memory > 0.0) text += format(", {:.0f} GiB", memory / 1024.0);
  return text;
}

double peak_memory_mib() {
  return mebibytes(line_value("/proc/self/status", "VmHWM"));
}

}  // namespace vaecf::train
