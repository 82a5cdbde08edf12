#pragma once

#include "io/hdf5.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vaecf::io {

/// Refuses `path` with InputError unless it is a readable file that is not empty. `make` says how to get one.
void require_file(const std::string& path, const std::string& make);

/// A dataset that passed the checks of Hdf5Reader::open.
struct Hdf5Dataset {
  h5::Handle id;
  h5::Handle type;
  std::string name;                 ///< as asked for, for messages
  std::vector<std::int64_t> shape;  ///< one entry per dimension
  H5T_class_t kind() const { return H5Tget_class(type.id()); }
};

/// The level at which it is deflated, 0 where it is not.
int deflate_level(const Hdf5Dataset& dataset);

/// An HDF5 file opened for reading without locks, and its objects looked at before they are touched.
/// All members throw InputError, or h5::Failure inside h5::reading.
class Hdf5Reader {
 public:
  /// `make`: what the user may run to get such a file.
  Hdf5Reader(std::string path, const std::string& make);

  const std::string& path() const { return path_; }
  hid_t id() const { return file_.id(); }
  /// Refuses links that lead nowhere or to other files.
  bool has(const std::string& path) const;
  /// Opens a group or a dataset.
  h5::Handle open_object(const std::string& path) const;
  /// Refuses groups, variable lengths, storage in other files, filters but shuffle and deflate, more than
  /// `max_dimensions`, and sizes that the file's bytes cannot hold.
  Hdf5Dataset open(const std::string& path, int max_dimensions) const;
  [[noreturn]] void refuse(const std::string& problem) const;

 private:
  void check_storage(const Hdf5Dataset& dataset) const;

  std::string path_;
  h5::Handle links_;  // how links are followed
  h5::Handle file_;
};

}  // namespace vaecf::io
