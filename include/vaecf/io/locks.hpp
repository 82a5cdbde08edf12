#pragma once

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

}  // namespace vaecf::io
