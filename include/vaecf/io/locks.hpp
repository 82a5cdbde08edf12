#pragma once

#include <chrono>
#include <string>

namespace vaecf::io {

enum class Locks {
  work,         ///< the file, or one made for the purpose, can be locked
  unsupported,  ///< the file system has none: HDF5 refuses to open files there, unless told otherwise
  held,         ///< another program has the file open for writing
  unknown,      ///< neither the file nor its folder can be opened
};

/// Whether HDF5's own file locks (flock) work where `path` is or would be. A file that exists is locked for
/// reading and left alone; else one without a name is made in its folder.
Locks probe_locks(const std::string& path);

/// Keeps other processes that ask for it out of a folder, also on other hosts where the file system locks
/// across them, by a lock on `folder`/.lock, which is gone with this object or its process. The file says who
/// holds it.
class FolderLock {
 public:
  FolderLock() = default;
  /// InputError, with who holds it, where nobody lets go of it within `patience`, and where it cannot be
  /// opened.
  explicit FolderLock(const std::string& folder, std::chrono::milliseconds patience);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;

  /// False where the file system has no locks: then nobody is kept out.
  bool held() const { return descriptor_ >= 0; }

 private:
  std::string path_;
  int descriptor_ = -1;
};

}  // namespace vaecf::io
