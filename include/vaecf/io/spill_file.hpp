#pragma once

#include <vaecf/io/descriptor.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace vaecf::io {

/// Temporary storage for bytes in an unnamed file next to `path`. The file is unlinked when it is created, so
/// nothing remains even if the process is killed. All functions throw RunError if the disk is full or fails.
class SpillFile {
 public:
  explicit SpillFile(const std::string& path);

  /// Appends `bytes` and returns their offset.
  std::int64_t append(std::span<const std::byte> bytes);
  /// Reads `to.size()` bytes at `offset`. Thread-safe.
  void read(std::int64_t offset, std::span<std::byte> to) const;
  /// Releases the disk space of `bytes` bytes at `offset`, if the file system supports hole punching.
  void discard(std::int64_t offset, std::int64_t bytes);

 private:
  std::string path_;
  Descriptor descriptor_;
  std::int64_t size_ = 0;
};

}  // namespace vaecf::io
