#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace vaecf::fuzz {

/// What must hold for every input; ends the run with the input that broke it.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

/// A file in memory that has a path.
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

/// A message must say something.
inline void require_message(const std::exception& error) {
  require(std::string_view(error.what()).size() > 10, "an error says what is wrong");
}

}  // namespace vaecf::fuzz
