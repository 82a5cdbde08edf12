#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace vaecf::io {

/// Whether `path` is an archive of files, and not one file, compressed or not. InputError where it cannot be
/// read.
bool holds_files(const std::string& path);

/// Bytes of files as they were downloaded: plain files, compressed ones (gzip, bzip2, xz, zstd, lz4), and the
/// files in archives (tar, zip, each of them compressed, too, and archives in archives), one after the other
/// and in bounded memory. What a file is its first bytes tell, not its name. Pipes and devices are read as
/// plain files.
class SourceReader {
 public:
  /// Says by its name, without folders, whether a file of an archive is to be read.
  using Wanted = std::function<bool(const std::string& file_name)>;

  /// Goes through `paths` in their order. Files that are no archives are always read.
  SourceReader(std::vector<std::string> paths, Wanted wanted);
  ~SourceReader();
  SourceReader(SourceReader&&) noexcept;
  SourceReader& operator=(SourceReader&&) noexcept;

  /// Moves on to the next file; false where there is none. InputError where a path cannot be read or an
  /// archive is damaged.
  bool next();
  /// The file for messages: its path, behind it the place within the archive,
  /// "ml-20m.zip/ml-20m/ratings.csv".
  const std::string& name() const;
  /// Its name without folders, and without ".gz" and the like where it was compressed by itself.
  const std::string& file_name() const;
  /// Fills `to` with the next bytes of the file; how many there were, 0 at its end. InputError where it is
  /// damaged or cut short.
  std::size_t read(std::span<char> to);

  /// How far it is, in bytes on disk, over all paths.
  std::int64_t bytes_read() const;
  std::int64_t total_bytes() const;
  /// The files that were passed over so far, for messages; at most some.
  const std::vector<std::string>& not_wanted() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vaecf::io
