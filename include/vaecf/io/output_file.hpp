#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vaecf::io {

/// Owns an open file of the system, and closes it.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  int value() const { return value_; }
  bool is_open() const { return value_ >= 0; }
  void reset() {
    if (is_open()) ::close(std::exchange(value_, -1));
  }

 private:
  int value_ = -1;
};

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

/// A file that appears under its name whole or not at all. It is written as `NAME.tmp-HOST-PID` beside
/// `path`; commit() gives it its name, and destruction before leaves nothing. Where a symbolic link stands,
/// the file that it leads to is meant. Throws RunError if the disk is full or not writable.
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
  /// Appends `bytes`, which should be many: nothing is buffered.
  void write(std::string_view bytes);
  /// Synchronizes the file, renames it, and synchronizes the folder. Nothing may be written afterwards.
  void commit();

 private:
  std::string path_;
  std::string temporary_;
  Descriptor descriptor_;
  off_t size_ = 0;
};

/// Makes `path` hold `text`, whole or not at all.
void write_text_file(const std::string& path, std::string_view text);

/// Bytes put aside on disk beside `path` while the program works: in a file that loses its name at once, so
/// that nothing is left even by a program that is killed. Throws RunError if the disk is full or fails.
class SpillFile {
 public:
  explicit SpillFile(const std::string& path);

  /// Returns where the bytes begin.
  std::int64_t append(std::span<const std::byte> bytes);
  /// Reads `to.size()` bytes from `offset` on. Safe to call from several threads at once.
  void read(std::int64_t offset, std::span<std::byte> to) const;
  /// Gives back the space of `bytes` bytes from `offset` on, if the file system can.
  void discard(std::int64_t offset, std::int64_t bytes);

 private:
  std::string path_;
  Descriptor descriptor_;
  std::int64_t size_ = 0;
};

}  // namespace vaecf::io
