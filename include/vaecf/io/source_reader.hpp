#pragma once

#include <vaecf/io/hash.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vaecf::io {

class Archive;

/// Returns the name of a file without the extension of a compressed one: .gz, .bz2, .xz, .zst or .lz4.
std::string unpacked_name(const std::string& name);

/// Returns whether `path` is an archive of files, as opposed to a single plain or compressed file. Throws
/// InputError if it cannot be read.
bool is_archive(const std::string& path);

/// Reads files as downloaded, one after another and in bounded memory: plain files, compressed files (gzip,
/// bzip2, xz, zstd, lz4), and the members of archives (tar, zip), which may be compressed and nested. The
/// file type is detected from the magic bytes, except for old tar files, which are recognized by name. Pipes
/// and devices are read as plain files.
class SourceReader {
 public:
  /// Returns whether a member of an archive is to be read, given its name without folders.
  using FileFilter = std::function<bool(const std::string& file_name)>;

  /// Reads `paths` in this order. Files that are not archives are always read.
  SourceReader(std::vector<std::string> paths, FileFilter wanted);
  /// Returns a reader of standard input, a single file called "stdin". read() throws InputError if it is
  /// compressed, and computes digest().
  static SourceReader standard_input();
  ~SourceReader();
  SourceReader(SourceReader&&) noexcept;
  SourceReader& operator=(SourceReader&&) noexcept;

  /// Advances to the next file; returns false if there is none. Throws InputError if a path cannot be read or
  /// an archive is damaged.
  bool next();
  /// Returns the path of the file, for messages. A member of an archive has its path within the archive
  /// appended: "ml-20m.zip/ml-20m/ratings.csv".
  const std::string& name() const { return name_; }
  /// Returns the name without folders. A compressed file loses its ".gz" or similar extension.
  const std::string& file_name() const { return file_name_; }
  /// Fills `to` with the next bytes of the file. Returns their number, 0 at the end. Throws InputError if the
  /// file is damaged or truncated.
  std::size_t read(std::span<char> to);

  /// Returns the progress over all paths, in bytes on disk.
  std::int64_t bytes_read() const;
  std::int64_t total_bytes() const { return total_; }
  /// Returns the XXH3-128 of the bytes of standard input that were read; requires standard_input().
  std::string digest() const { return digest_->hash128(); }
  /// Returns up to 8 archive members that were skipped so far, for messages.
  const std::vector<std::string>& skipped_files() const { return skipped_files_; }

 private:
  void open_path(const std::string& path);
  /// Advances to the next member of the innermost archive; returns false at its end. Sets `found_` if the
  /// member is to be read.
  [[nodiscard]] bool next_member();

  std::vector<std::string> paths_;
  FileFilter wanted_;
  std::size_t next_path_ = 0;
  std::shared_ptr<std::FILE> plain_;
  std::vector<std::unique_ptr<Archive>> archives_;  // each is a member of the previous one
  bool found_ = false;
  std::string name_;
  std::string file_name_;
  std::vector<std::string> skipped_files_;
  std::int64_t bytes_of_paths_done_ = 0;
  std::int64_t bytes_of_path_ = 0;
  std::int64_t plain_bytes_ = 0;
  std::int64_t total_ = 0;
  std::optional<Xxh3> digest_;        // of standard input; no value: files are read
  bool standard_input_done_ = false;  // its end was checked
};

/// Reads a sequence of BSON documents, the format of `mongodump` and of the Pinterest boards. An id is a
/// value that is a string, an integer, an integral double up to 2^53, or an ObjectId. As text, numbers are
/// decimal and ObjectIds hexadecimal.
class BsonReader {
 public:
  /// Function that reads up to to.size() bytes into `to` and returns their number, 0 at the end.
  using Read = std::function<std::size_t(std::span<char> to)>;

  /// Messages name the source `name`. `read` is called by next() only.
  BsonReader(std::string name, Read read);
  ~BsonReader();
  BsonReader(const BsonReader&) = delete;
  BsonReader& operator=(const BsonReader&) = delete;

  /// Advances to the next document; returns false at the end. Throws InputError with the byte offset if a
  /// document is damaged or truncated, and rethrows exceptions of `read`.
  bool next();
  /// Stores the id at `key` of the current document in `value` as text. Returns false, and leaves `value`
  /// unchanged, if there is no such key or its value is not an id. next() must have returned true.
  [[nodiscard]] bool id(const char* key, std::string& value) const;
  /// Calls use(id) for each id in the array at `key`, in order. Returns the number of other elements, or -1
  /// if there is no such array. next() must have returned true.
  std::int64_t for_each_id(const char* key, const std::function<void(std::string_view)>& use) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vaecf::io
