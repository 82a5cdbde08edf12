#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/data/prepare.hpp>

#include <sys/stat.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "support/messages.hpp"
#include "support/temporary_folder.hpp"

namespace vaecf::data::test {

/// Temporary folder, removed with its contents at the end of the test.
class TempFolder {
 public:
  std::string path(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, std::string_view text) const {
    std::ofstream file(path_ / name, std::ios::binary);
    file << text;
    if (!file.flush()) throw std::runtime_error("cannot write " + name);
    return path(name);
  }
  std::string read(const std::string& name) const {
    std::ifstream file(path_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  bool empty() const { return std::filesystem::is_empty(path_); }

 private:
  testing::TemporaryFolder folder_;
  const std::filesystem::path& path_ = folder_.path();
};

/// Fixture with a temporary folder, log and progress.
class DataTest : public ::testing::Test {
 protected:
  TempFolder folder_;
  Log log_;
  Progress progress_;
};

/// Fixture that prepares the dataset tiny.h5 by default.
class PrepareTest : public DataTest {
 protected:
  PrepareReport run() { return prepare(source_, options_, "tiny", output_, mode_, log_, progress_); }
  std::string refusal() {
    return message_of<InputError>([&] { run(); });
  }

  SourceOptions source_;
  PrepareOptions options_;
  PrepareFlags mode_;
  std::string output_ = folder_.path("tiny.h5");
};

/// Returns the inode of a file, which distinguishes an unchanged file from a rewritten one regardless of the
/// clock resolution.
inline std::uint64_t inode_of(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) throw std::runtime_error("no file " + path);
  return found.st_ino;
}

/// Returns zlib's CRC-32 of little-endian int32 values.
inline std::uint32_t crc32(std::span<const std::int32_t> values) {
  std::uint32_t crc = 0xFFFFFFFFu;
  for (const std::int32_t value : values) {
    for (int shift = 0; shift < 32; shift += 8) {
      crc ^= (static_cast<std::uint32_t>(value) >> shift) & 0xFFu;
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1u)));
    }
  }
  return ~crc;
}

}  // namespace vaecf::data::test
