#pragma once

#include <string>
#include <string_view>

namespace vaecf::io {

/// Makes the folder that `path` lies in. RunError where that cannot be.
void make_parent_folder(const std::string& path);

/// RunError for a write that failed with `code` (an errno).
[[noreturn]] void throw_write_error(const std::string& path, int code);

/// Writes all of `bytes` where the descriptor stands. RunError, naming `path`, where that fails.
void write_bytes(int descriptor, std::string_view bytes, const std::string& path);

/// Makes the names in the folder that `path` lies in last. RunError where the disk refuses.
void sync_parent_folder(const std::string& path);

/// Copies all bytes of the descriptor `from` to the start of `to`, which shall become `path`. RunError where
/// one of them fails.
void copy_bytes(int from, int to, const std::string& path);

/// A file that comes into being whole or not at all: publish() gives it its name, and destruction without
/// publish() leaves nothing. Until then it has no name, so that even a process that is killed leaves nothing;
/// where the file system knows no such files, it is called temporary_name(path). Where a symbolic link
/// stands, the file that it leads to is meant.
class StagedFile {
 public:
  enum class Staging { unnamed_where_possible, named };

  /// Makes the folder where need be. RunError where the folder or the file cannot be made, and where a
  /// folder, a device or a pipe stands there.
  explicit StagedFile(const std::string& path, Staging staging = Staging::unnamed_where_possible);
  ~StagedFile();
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;

  /// Behind all links.
  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  /// fsync: all bytes are on the disk afterwards, still without the name. RunError where it refuses.
  void sync() const;
  /// sync(), rename, fsync of the folder. RunError where one of them fails.
  void publish();

 private:
  bool open_unnamed();
  void open_named();
  /// Links the unnamed file under a name; false where this file system does not let us.
  bool link_as(const std::string& name) const;
  void give_name();

  std::string path_;
  std::string temporary_;
  int descriptor_ = -1;
  bool named_ = false;  // temporary_ exists
};

}  // namespace vaecf::io
