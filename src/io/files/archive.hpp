#pragma once

// C++ wrapper of libarchive. Only src/io includes this.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

struct archive;
struct archive_entry;

namespace vaecf::io {

/// Fills a part of the bytes with the next ones of a stream. Returns their number, 0 at the end.
using ByteSource = std::function<std::size_t(std::span<char>)>;

/// An archive, or a single compressed file, opened for reading. All functions throw InputError, which names
/// the file, if it is damaged.
class Archive {
 public:
  explicit Archive(const std::string& path);
  /// Opens the current member of `outer`, which is an archive itself and must outlive this object.
  Archive(Archive& outer, const std::string& name);
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;

  /// Advances to the next regular file; returns false at the end.
  [[nodiscard]] bool next();
  const std::string& name() const { return name_; }
  /// Returns the path of the current file within the archive; empty for a single compressed file.
  const std::string& member() const { return member_; }
  /// Reads up to `to.size()` decompressed bytes. Returns their number, 0 at the end of the file.
  std::size_t read(std::span<char> to);
  /// Returns the number of compressed bytes consumed from the outermost file.
  std::int64_t bytes_read() const;

 private:
  static std::ptrdiff_t read_source(archive* opened, void* self, const void** bytes);
  void prepare();
  void open(ByteSource source);
  /// Throws if `result` is below `lowest`.
  void check(std::ptrdiff_t result, int lowest = 0);

  std::string name_;
  std::string member_;
  Archive* outer_ = nullptr;
  ByteSource source_;         // unless libarchive reads the file itself
  std::int64_t on_disk_ = 0;  // bytes of the file that source_ has read
  std::vector<char> piece_;   // block of source_
  std::string source_error_;
  std::shared_ptr<archive> archive_;
};

}  // namespace vaecf::io
