#pragma once

#include <vaecf/base/error.hpp>

#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vaecf::io {

/// Owns a file descriptor and closes it on destruction.
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

/// Temporary storage for bytes in an unnamed file next to `path`. The file is unlinked when it is created, so
/// nothing remains even if the process is killed. All functions throw RunError if the disk is full or fails.
class SpillFile {
 public:
  explicit SpillFile(const std::string& path);

  /// Appends `bytes` and returns their offset.
  std::int64_t append(std::span<const std::byte> bytes);
  /// Reads `to.size()` bytes at `offset`. Thread-safe.
  void read(std::int64_t offset, std::span<std::byte> to) const;
  /// Releases the disk space of `bytes` bytes at `offset`, if the file system supports hole punching.
  void discard(std::int64_t offset, std::int64_t bytes);

 private:
  std::string path_;
  Descriptor descriptor_;
  std::int64_t size_ = 0;
};

/// Result of probe_file_lock().
enum class FileLockStatus {
  available,    ///< file locks work
  unsupported,  ///< the file system has no locks, so HDF5 refuses to open files unless locking is disabled
  held,         ///< another process holds an exclusive lock on the file
  unknown,      ///< the file does not exist or cannot be read, and no file can be created in its folder
};

/// Returns whether the file locks that HDF5 uses (flock) work for the file `path`. An existing file is locked
/// for reading and released at once, and not modified. Otherwise an unnamed temporary file in its folder is
/// locked instead. Does not block.
FileLockStatus probe_file_lock(const std::string& path);

/// A file that cannot be read because another process has locked it.
class FileInUseError : public InputError {
 public:
  explicit FileInUseError(const std::string& path);
};

/// Throws FileInUseError if another process holds an exclusive lock on the file `path`. Called before a file
/// is reported as damaged, because it may be incomplete while it is written.
void throw_if_in_use(const std::string& path);

/// Exclusive lock on a folder among processes that use this class, held on the file `folder`/.lock. It also
/// excludes processes on other hosts if the file system supports locks across hosts. The lock is released
/// when this object is destroyed or the process exits. The file is never removed; it contains the process id
/// and host of the last holder.
class DirectoryLock {
 public:
  static constexpr const char* file_name = ".lock";

  /// Holds no lock.
  DirectoryLock() = default;
  /// Acquires the lock. Blocks for up to `timeout`. Throws InputError, which names the current holder, on
  /// timeout, and InputError if the file cannot be opened. If the file system does not support locks, the
  /// object holds none.
  explicit DirectoryLock(const std::string& folder, std::chrono::milliseconds timeout);

  /// Returns whether this object holds the lock. If not, no process is excluded.
  bool held() const { return file_.is_open(); }

 private:
  Descriptor file_;
};

/// Returns XXH64 (xxHash) of `bytes`; the value does not depend on the platform. It is not a cryptographic
/// hash.
std::uint64_t xxh64(std::string_view bytes, std::uint64_t seed = 0);

/// Incremental XXH3 (xxHash), which tells changed files from equal ones. It is not a cryptographic hash.
/// A copy refers to the same input.
class Xxh3 {
 public:
  Xxh3();
  /// Appends `bytes` to the input.
  void update(std::span<const std::byte> bytes);
  /// Returns the hash of all bytes with 64 bits.
  std::uint64_t hash64() const;
  /// Returns the 128-bit hash of all bytes as 32 hexadecimal digits, as the program xxh128sum prints it.
  std::string hash128() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace vaecf::io
