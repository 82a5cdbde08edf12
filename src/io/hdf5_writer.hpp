#pragma once

#include "io/file_system.hpp"
#include "io/hdf5.hpp"

#include <vaecf/io/output_file.hpp>

#include <string>

namespace vaecf::io {

/// An HDF5 file being written that appears under its name whole or not at all.
class Hdf5Writer {
 public:
  /// `user_block`: bytes left free in front of the HDF5 data (0, or a power of two from 512).
  explicit Hdf5Writer(const std::string& path, hsize_t user_block = 0);
  ~Hdf5Writer();
  Hdf5Writer(const Hdf5Writer&) = delete;
  Hdf5Writer& operator=(const Hdf5Writer&) = delete;

  const std::string& path() const { return output_.path(); }
  hid_t id() const { return file_.id(); }
  int descriptor() const { return output_.descriptor(); }

  /// Runs `work`, which writes. Throws RunError if the library or the disk refused.
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
  /// After finish(): gives the file its name.
  void commit() { output_.commit(); }

  /// What the library writes to. `error` is the errno of the first write that failed.
  struct Target {
    int descriptor = -1;
    int error = 0;
  };

 private:
  void throw_if_disk_failed() const;

  OutputFile output_;
  Target target_;
  h5::Handle driver_;
  h5::Handle file_;
};

}  // namespace vaecf::io
