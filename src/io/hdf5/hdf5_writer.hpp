#pragma once

#include "io/files/file_system.hpp"
#include "io/hdf5/hdf5.hpp"

#include <vaecf/io/dataset_file.hpp>
#include <vaecf/io/output_file.hpp>

#include <cstdint>
#include <span>
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
    const auto lock = h5::lock_library();
    try {
      work();
    } catch (const h5::Failure& failure) {
      throw_if_disk_failed();
      throw RunError(format("{}: {}", path(), failure.what()));
    }
    throw_if_disk_failed();
  }
  /// Creates a dataset and the groups above it. No modification times: the same data make the same bytes.
  /// `chunk` = 0: stored in one piece; otherwise extendible (one dimension only), and shuffled and deflated
  /// if `deflate` is 1 to 9.
  h5::Handle create(const std::string& path, hid_t type, std::span<const hsize_t> shape, hsize_t chunk = 0,
                    int deflate = 0);
  /// Creates a soft link and the groups above it.
  void link(const std::string& path, const std::string& target);
  /// Writes ids as int64 or as strings of one fixed length. InputError for absurdly long ones.
  void write_ids(const std::string& path, const IdList& ids);
  /// Writes attributes of the root; strings have a fixed length.
  void write_attributes(const Attributes& attributes);

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
  void make_groups(const std::string& path);
  void throw_if_disk_failed() const;

  OutputFile output_;
  Target target_;
  h5::Handle driver_;
  h5::Handle file_;
};

}  // namespace vaecf::io
