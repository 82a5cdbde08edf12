#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/io/digest.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "data/source_files.hpp"

namespace vaecf::data {
namespace {

struct Digest {
  std::int64_t bytes = 0;
  std::string sha256;
};

Digest digest_of(const std::string& path, const std::stop_token& stop) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  const auto refuse = [&] {
    throw InputError(format("{}: cannot be read ({}): check data.source.path", path, std::strerror(errno)));
  };
  if (!file) refuse();
  std::vector<char> piece(std::size_t{1} << 20);
  io::Sha256 hash;
  Digest digest;
  while (!stop.stop_requested()) {
    const std::size_t got = std::fread(piece.data(), 1, piece.size(), file.get());
    if (got == 0) break;
    hash.update(std::span(piece).first(got));
    digest.bytes += static_cast<std::int64_t>(got);
  }
  if (std::ferror(file.get())) refuse();
  digest.sha256 = hash.finish();
  return digest;
}

}  // namespace

std::string describe_sources(const std::vector<std::string>& paths, const std::stop_token& stop) {
  constexpr std::size_t most_named = 8;
  const auto name = [](const std::string& path) { return std::filesystem::path(path).filename().string(); };
  std::string text;
  std::string sums;
  std::int64_t bytes = 0;
  for (const std::string& path : paths) {
    const Digest digest = digest_of(path, stop);
    text += format("{}{} ({} bytes, sha256 {})", text.empty() ? "" : ", ", name(path), digest.bytes,
                   digest.sha256);
    sums += format("{}  {}\n", digest.sha256, name(path));
    bytes += digest.bytes;
  }
  if (paths.size() <= most_named) return text;
  io::Sha256 hash;
  hash.update(sums);
  return format("{} to {} ({} files, {} bytes, sha256 of their sha256sum lines {})", name(paths.front()),
                name(paths.back()), paths.size(), bytes, hash.finish());
}

}  // namespace vaecf::data
