#pragma once

#include <vaecf/io/output_file.hpp>

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

/// Keeps other processes that ask for it out of a folder, also on other hosts if the file system locks across
/// them, by a lock on `folder`/.lock, which ends with this object or its process. The file, which stays, says
/// who holds it.
class FolderLock {
 public:
  FolderLock() = default;
  /// Throws InputError, with who holds it, if it is not released within `patience`, and if the file cannot be
  /// opened.
  explicit FolderLock(const std::string& folder, std::chrono::milliseconds patience);

  /// False if the file system has no locks: then no process is kept out.
  bool held() const { return file_.is_open(); }

 private:
  Descriptor file_;
};

}  // namespace vaecf::io
