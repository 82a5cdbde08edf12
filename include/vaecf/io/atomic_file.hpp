#pragma once

#include <vaecf/io/descriptor.hpp>

#include <unistd.h>

#include <string>
#include <string_view>
#include <vector>

namespace vaecf::io {

/// Throws InputError if `output` is a folder or one of the files `read`, which it would replace. `name` is
/// the option that sets `output`, for messages.
void validate_output_path(const std::string& output, const std::string& name,
                          const std::vector<std::string>& read);

/// Resolves the symbolic links of the last component of `path`, so that outputs replace the target and keep
/// the link. Throws RunError if the links form a cycle.
std::string resolve_symlinks(const std::string& path);

/// Removes the temporary files `NAME.tmp-HOST-PID-RANDOM` of terminated writers from `folder`, not
/// recursively. Only names that begin with `prefix` are considered. Files of this host are removed if the
/// process has ended or is this one, which must not be writing any of them, and files of other hosts one hour
/// after the last write. Files that cannot be removed are left.
void remove_stale_temporaries(const std::string& folder, std::string_view prefix = "");

/// A file that is written atomically. Data go to `NAME.tmp-HOST-PID-RANDOM` next to `path`, which must not
/// exist. commit() renames it to `path`; destruction without commit() removes it. If `path` is a symbolic
/// link, its target is replaced. All functions throw RunError if the disk is full or not writable.
class AtomicOutputFile {
 public:
  /// Creates the folder if needed, and removes temporary files that terminated writers of `path` left. Throws
  /// RunError if `path` is a folder, a device or a pipe.
  explicit AtomicOutputFile(const std::string& path);
  ~AtomicOutputFile();
  AtomicOutputFile(const AtomicOutputFile&) = delete;
  AtomicOutputFile& operator=(const AtomicOutputFile&) = delete;

  /// Returns the path with its symbolic links resolved.
  const std::string& path() const { return path_; }
  /// Returns the descriptor of the temporary file, for writers that do not use write().
  int descriptor() const { return descriptor_.value(); }
  /// Appends `bytes`. Writes are not buffered, so `bytes` should be large.
  void write(std::string_view bytes);
  /// Calls fsync on the file, renames it, and calls fsync on the folder. No function may be called
  /// afterwards.
  void commit();

 private:
  std::string path_;
  std::string temporary_;
  Descriptor descriptor_;
  off_t size_ = 0;
};

/// Writes `text` to `path` atomically. Throws RunError as AtomicOutputFile does.
void write_file_atomically(const std::string& path, std::string_view text);

}  // namespace vaecf::io
