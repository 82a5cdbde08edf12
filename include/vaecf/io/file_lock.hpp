#pragma once

#include <vaecf/base/failure.hpp>
#include <vaecf/io/descriptor.hpp>

#include <chrono>
#include <string>

namespace vaecf::io {

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
class FileInUseError : public BusyError {
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
  /// Acquires the lock. Blocks for up to `timeout`. Throws BusyError, which names the current holder, on
  /// timeout, and InputError if the file cannot be opened. If the file system does not support locks, the
  /// object holds none.
  explicit DirectoryLock(const std::string& folder, std::chrono::milliseconds timeout);

  /// Returns whether this object holds the lock. If not, no process is excluded.
  bool held() const { return file_.is_open(); }

 private:
  Descriptor file_;
};

}  // namespace vaecf::io
