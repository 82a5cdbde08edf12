#pragma once

#include "io/hdf5.hpp"

namespace vaecf::io {

/// What the driver writes to. `error` is the errno of the first write that failed, 0 while none did.
struct StagedTarget {
  int descriptor = -1;
  int error = 0;
};

/// Registers a file driver of HDF5 that writes to a descriptor it does not own and, once a write has failed,
/// keeps that errno and swallows all further writes. libhdf5 1.10 whose own driver meets a full disk in the
/// middle of closing keeps identifiers to freed memory and crashes at exit; behind this driver it always
/// closes cleanly, and the writer asks `target.error` instead.
h5::Handle register_staged_driver();

/// Selects `driver` in a file access list. `target` must outlive the file.
void use_staged_driver(hid_t access, hid_t driver, StagedTarget& target);

}  // namespace vaecf::io
