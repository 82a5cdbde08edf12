#pragma once

#include <vaecf/base/error.hpp>
#include <vaecf/base/views.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace vaecf::fuzz {

/// Ends the process with a message if `holds` is false.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

/// In-memory file with a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes = {}) : descriptor_(memfd_create("fuzz", 0)) {
    require(descriptor_ >= 0, "memfd_create works");
    replace(bytes);
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  void replace(std::string_view bytes) {
    require(ftruncate(descriptor_, 0) == 0, "ftruncate works");
    require(pwrite(descriptor_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
            "pwrite works");
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

/// Runs `work`. Returns whether it rejected its input, which requires a non-trivial message.
template <class Work>
bool refused(Work&& work) {
  try {
    work();
    return false;
  } catch (const InputError& error) {
    require(std::string_view(error.what()).size() > 10, "an error has a message");
    return true;
  }
}

/// Requires the columns of a row to be ascending, unique and in [0, width).
inline void require_sound(std::span<const std::int32_t> row, std::int64_t width) {
  require(std::is_sorted(row.begin(), row.end(), std::less_equal<>()), "columns are ascending and unique");
  require(row.empty() || (row.front() >= 0 && row.back() < width), "columns are in range");
}
inline void require_sound(const Csr& rows, std::int64_t count, std::int64_t width) {
  require(rows.rows() == count, "the number of rows is correct");
  for (std::int64_t row = 0; row < count; ++row) require_sound(rows.view().row(row), width);
}

inline void write_bytes(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace vaecf::fuzz
