#pragma once

#include <vaecf/io/atomic_file.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <iterator>
#include <span>
#include <string>

#include "io/files/file_system.hpp"
#include "io/hdf5/hdf5.hpp"

namespace vaecf::io {

/// HDF5 file that is written atomically.
class Hdf5Writer {
 public:
  /// `user_block`: bytes reserved before the HDF5 data (0, or a power of two from 512).
  explicit Hdf5Writer(const std::string& path, hsize_t user_block = 0);
  ~Hdf5Writer();
  Hdf5Writer(const Hdf5Writer&) = delete;
  Hdf5Writer& operator=(const Hdf5Writer&) = delete;

  const std::string& path() const { return output_.path(); }
  hid_t id() const { return file_.id(); }
  int descriptor() const { return output_.descriptor(); }

  /// Runs `work`, which calls the HDF5 library, under its lock. Throws RunError if the library or the disk
  /// reports an error.
  template <class Work>
  void write(Work&& work) {
    const auto lock = h5::lock_library();
    try {
      work();
    } catch (const h5::Error& failure) {
      throw_if_disk_failed();
      throw RunError(format("{}: {}", path(), failure.what()));
    }
    throw_if_disk_failed();
  }
  /// Creates a dataset and its parent HDF5 groups, without modification times, so that equal data give an
  /// identical file. With `chunk` = 0 the dataset has contiguous layout. Otherwise it has one dimension, is
  /// extendible, and is shuffled and deflated if `deflate` is 1 to 9.
  h5::Handle create(const std::string& path, hid_t type, std::span<const hsize_t> shape, hsize_t chunk = 0,
                    int deflate = 0);
  /// Writes a dataset of one dimension.
  template <class T>
  void write_array(const std::string& path, std::span<const T> values) {
    const hsize_t size = values.size();
    const h5::Handle dataset = create(path, h5::native_type<T>(), {&size, 1});
    write([&] { h5::write_rows(dataset.id(), h5::native_type<T>(), 0, std::ssize(values), values.data()); });
  }
  /// Creates a soft link and its parent HDF5 groups.
  void link(const std::string& path, const std::string& target);
  /// Writes ids as int64 or as fixed-length strings. Throws InputError if an id is longer than
  /// h5::max_id_bytes.
  void write_ids(const std::string& path, const IdList& ids);
  /// Writes attributes of the root HDF5 group; strings have fixed length.
  void write_attributes(const Attributes& attributes);

  /// Closes the HDF5 file. All bytes of descriptor() except the user block are then final.
  void finish();
  /// Gives the file its final name. Must be called after finish().
  void commit() { output_.commit(); }

  /// Output of the HDF5 file driver.
  struct Target {
    int descriptor = -1;
    int error = 0;  ///< errno of the first failed write
  };

 private:
  void make_hdf5_groups(const std::string& path);
  void throw_if_disk_failed() const;

  AtomicOutputFile output_;
  Target target_;
  h5::Handle driver_;
  h5::Handle file_;
};

}  // namespace vaecf::io
