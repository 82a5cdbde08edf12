#include <algorithm>
#include <array>
#include <string_view>

#include "io/files/archive.hpp"

namespace vaecf::io {
namespace {

using namespace std::string_view_literals;

constexpr std::array archive_endings = {".tar"sv,    ".tgz"sv,     ".tar.gz"sv,  ".tar.bz2"sv,
                                        ".tar.xz"sv, ".tar.zst"sv, ".tar.lz4"sv, ".zip"sv};
constexpr std::array compressed_endings = {".gz"sv, ".bz2"sv, ".xz"sv, ".zst"sv, ".lz4"sv};

}  // namespace

bool is_compressed_or_archive(std::span<const char> first_bytes, const std::string& name) {
  const std::string_view bytes(first_bytes.data(), first_bytes.size());
  constexpr std::array marks = {"\x1f\x8b"sv,
                                "PK\x03\x04"sv,
                                "PK\x05\x06"sv,
                                "\x28\xb5\x2f\xfd"sv,
                                "\x04\x22\x4d\x18"sv,
                                "\xfd"
                                "7zXZ\0"sv};
  if (std::any_of(marks.begin(), marks.end(), [&](auto mark) { return bytes.starts_with(mark); }))
    return true;
  constexpr std::size_t bzip2_block = 4;
  if (bytes.starts_with("BZh") && bytes.substr(std::min(bzip2_block, bytes.size())).starts_with("1AY&SY")) {
    return true;
  }
  constexpr std::size_t tar_mark = 257;
  if (bytes.size() > tar_mark && bytes.substr(tar_mark).starts_with("ustar")) return true;
  return !bytes.empty() && name.ends_with(".tar");
}

bool has_archive_extension(const std::string& name) {
  return std::any_of(archive_endings.begin(), archive_endings.end(),
                     [&](auto ending) { return name.ends_with(ending); });
}

bool strip_compression_extension(const std::string& name, std::string& stem) {
  for (const auto ending : compressed_endings) {
    if (!name.ends_with(ending)) continue;
    stem = name.substr(0, name.size() - ending.size());
    return true;
  }
  return false;
}

}  // namespace vaecf::io
