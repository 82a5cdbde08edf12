#pragma once

#include <vaecf/io/descriptor.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace vaecf::io {

/// Bytes put aside on disk beside `path` while the program works: in a file that loses its name at once, so
/// that nothing is left even by a program that is killed. Throws RunError if the disk is full or fails.
class SpillFile {
 public:
  explicit SpillFile(const std::string& path);

  /// Returns where the bytes begin.
  std::int64_t append(std::span<const std::byte> bytes);
  /// Reads `to.size()` bytes from `offset` on. Safe to call from several threads at once.
  void read(std::int64_t offset, std::span<std::byte> to) const;
  /// Gives back the space of `bytes` bytes from `offset` on, if the file system can.
  void discard(std::int64_t offset, std::int64_t bytes);

 private:
  std::string path_;
  Descriptor descriptor_;
  std::int64_t size_ = 0;
};

}  // namespace vaecf::io
