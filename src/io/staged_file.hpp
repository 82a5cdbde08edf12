#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace vaecf::io {

/// Makes the folder that `path` lies in. RunError where that cannot be.
void make_parent_folder(const std::string& path);

/// RunError for a write that failed with `code` (an errno).
[[noreturn]] void throw_write_error(const std::string& path, int code);

/// A file that comes into being whole or not at all: bytes go to `path.tmp-<pid>`, publish() gives it its
/// name, and destruction without publish() leaves nothing.
class StagedFile {
 public:
  /// RunError where the folder or the file cannot be made.
  explicit StagedFile(std::string path);
  ~StagedFile();
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;

  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  /// fsync, rename, fsync of the folder. RunError where one of them fails.
  void publish();

 private:
  std::string path_;
  std::string temporary_;
  int descriptor_ = -1;
};

}  // namespace vaecf::io
