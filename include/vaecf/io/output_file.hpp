#pragma once

#include <vaecf/io/descriptor.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vaecf::io {

/// Throws InputError if `output`, which `name` names, is a folder or one of the files `read`, whose place it
/// would take.
void check_output(const std::string& output, const std::string& name, const std::vector<std::string>& read);

/// Returns where a path leads whose last part is a symbolic link: outputs replace the file there, and the
/// link stays what it is. Throws RunError for links that lead nowhere but to each other.
std::string behind_links(const std::string& path);

/// Removes what writers that were killed have left in `folder` (not below it): files of our own names
/// `NAME.tmp-HOST-PID` whose NAME begins with `prefix`, of processes of this host that have ended, and those
/// of other hosts an hour after they were last written. What cannot be removed is left.
void remove_stale_temporaries(const std::string& folder, std::string_view prefix = "");

/// A file that appears under its name whole or not at all. It is written in bounded memory as
/// `NAME.tmp-HOST-PID` beside `path`; commit() gives it its name, and destruction before leaves nothing.
/// Where a symbolic link stands, the file that it leads to is meant. Throws RunError if the disk is full or
/// not writable.
class OutputFile {
 public:
  /// Makes the folder if needed, and removes what killed writers of `path` have left. Throws RunError if a
  /// folder, a device or a pipe is there.
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// The path behind all links.
  const std::string& path() const { return path_; }
  /// For those who write by other means than write().
  int descriptor() const { return descriptor_.value(); }
  void write(std::string_view bytes);
  /// Bytes written so far by write().
  std::int64_t size() const { return size_; }
  /// Synchronizes the file, renames it, and synchronizes the folder. Nothing may be written afterwards.
  void commit();

 private:
  void flush();

  std::string path_;
  std::string temporary_;
  Descriptor descriptor_;
  std::string buffer_;
  std::int64_t size_ = 0;
};

/// Makes `path` hold `text`, whole or not at all.
void write_text_file(const std::string& path, std::string_view text);

}  // namespace vaecf::io
