#include <vaecf/base/host.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace vaecf {
namespace {

/// Returns the number after `key` at the beginning of a line of the file; 0 if there is none.
std::int64_t number_in(const std::filesystem::path& path, const std::string& key = "") {
  std::ifstream lines(path);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(key)) return std::strtoll(line.c_str() + key.size(), nullptr, 10);
  }
  return 0;
}

/// Names of the files of a control group, in version 2 and version 1 of control groups.
struct GroupFiles {
  const char* folder;
  const char* limit;
  const char* usage;
  const char* prefix;  ///< start of the keys in memory.stat that include inner groups
};
constexpr std::array<GroupFiles, 2> versions{
    {{"sys/fs/cgroup", "memory.max", "memory.current", ""},
     {"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"}}};

/// Returns the path of this process's control group for memory in /proc/self/cgroup, whose lines are
/// "ID:CONTROLLERS:PATH", with no controllers in version 2; "/" if there is none.
std::filesystem::path group_of_process(const std::filesystem::path& root, bool version2) {
  std::ifstream lines(root / "proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    const std::size_t controllers = line.find(':');
    const std::size_t path = line.find(':', controllers + 1);
    if (controllers == std::string::npos || path == std::string::npos) continue;
    const std::string names = "," + line.substr(controllers + 1, path - controllers - 1) + ",";
    if (version2 ? names == ",," : names.find(",memory,") != std::string::npos) return line.substr(path + 1);
  }
  return "/";
}

}  // namespace

HostMemory host_memory(const std::string& root) {
  const std::filesystem::path top = root + "/";
  constexpr std::int64_t kib = 1024;
  HostMemory memory;
  memory.total = kib * number_in(top / "proc/meminfo", "MemTotal:");
  memory.available = kib * number_in(top / "proc/meminfo", "MemAvailable:");
  for (const GroupFiles& files : versions) {
    // The limits of all groups around this one apply. In a container, the files of its group are in the top
    // folder, whatever path the kernel states.
    std::filesystem::path group = group_of_process(top, &files == versions.data());
    for (bool more = true; more; group = group.parent_path()) {
      more = group.has_relative_path();
      const std::filesystem::path folder = top / files.folder / group.relative_path();
      const std::int64_t limit = number_in(folder / files.limit);
      if (limit <= 0 || limit >= memory.total) continue;
      if (memory.limit == 0 || limit < memory.limit) memory.limit = limit;
      // Cached pages of files count as used, but the kernel frees them, as in MemAvailable.
      std::int64_t used = number_in(folder / files.usage);
      for (const char* pages : {"active_file ", "inactive_file "})
        used -= number_in(folder / "memory.stat", std::string(files.prefix) + pages);
      memory.available = std::clamp(limit - used, std::int64_t{0}, memory.available);
    }
  }
  return memory;
}

}  // namespace vaecf
