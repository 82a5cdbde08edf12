#pragma once

#include "io/staged_driver.hpp"
#include "io/staged_file.hpp"

#include <string>

namespace vaecf::io {

/// An HDF5 file being written that appears under its name whole or not at all.
class StagedHdf5 {
 public:
  /// `user_block`: bytes left free in front of the HDF5 data (0, or a power of two from 512).
  StagedHdf5(std::string path, hsize_t user_block);
  ~StagedHdf5();
  StagedHdf5(const StagedHdf5&) = delete;
  StagedHdf5& operator=(const StagedHdf5&) = delete;

  const std::string& path() const { return staged_.path(); }
  hid_t id() const { return file_.id(); }
  int descriptor() const { return staged_.descriptor(); }

  /// Runs `work`, which writes; RunError if the library or the disk refused. Nothing may be written after.
  template <class Work>
  void write(Work&& work) {
    const h5::LibraryLock lock;
    try {
      work();
    } catch (const h5::Failure& failure) {
      throw_if_disk_failed();
      throw RunError(format("{}: {}", path(), failure.what()));
    }
    throw_if_disk_failed();
  }
  /// Closes the HDF5 part; the bytes behind descriptor() are final then, but for the user block.
  void finish();
  /// After finish(): all bytes are on the disk.
  void sync() const { staged_.sync(); }
  /// After finish(): gives the file its name.
  void publish() { staged_.publish(); }

 private:
  void throw_if_disk_failed() const;

  StagedFile staged_;
  StagedTarget target_;
  h5::Handle driver_;
  h5::Handle file_;
};

}  // namespace vaecf::io
