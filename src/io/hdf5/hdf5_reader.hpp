#pragma once

#include <vaecf/io/dataset_file.hpp>

#include <cstdint>
#include <new>
#include <string>
#include <vector>

#include "io/hdf5/hdf5.hpp"

namespace vaecf::io {

/// Throws InputError unless `path` is a readable regular file. `make` is advice on how to obtain one.
void require_file(const std::string& path, const std::string& make);

/// A dataset that passed the checks of Hdf5Reader::open.
struct Hdf5Dataset {
  h5::Handle id;
  h5::Handle type;
  std::string name;                 ///< path of the dataset, for messages
  std::vector<std::int64_t> shape;  ///< one element per dimension
  int deflate = 0;                  ///< deflate level, 0 if not deflated

  H5T_class_t kind() const { return H5Tget_class(type.id()); }
  /// Returns the elements [begin, begin + count) of a one-dimensional dataset.
  template <class T>
  std::vector<T> read(std::int64_t begin, std::int64_t count) const {
    std::vector<T> values(static_cast<std::size_t>(count));
    h5::read_rows(id.id(), h5::native_type<T>(), begin, count, values.data());
    return values;
  }
};

/// HDF5 file opened for reading without file locks, whose objects are validated before use. All members
/// except as_input_error() must be called inside as_input_error(). They throw InputError or h5::Error.
class Hdf5Reader {
 public:
  /// `make`: advice on how to obtain such a file. Throws InputError if the file cannot be opened.
  Hdf5Reader(std::string path, const std::string& make);

  /// Runs `work`, which reads the file, under the library's lock. Throws InputError if the library reports an
  /// error or memory is insufficient.
  template <class Work>
  decltype(auto) as_input_error(Work&& work) const {
    const auto lock = h5::lock_library();
    try {
      return work();
    } catch (const h5::Error& failure) {
      refuse_damaged(failure.what());
    } catch (const std::bad_alloc&) {
      refuse("its declared contents do not fit into the memory of this machine");
    } catch (const std::length_error&) {
      refuse("its declared contents do not fit into any memory");
    }
  }

  const std::string& path() const { return path_; }
  hid_t id() const { return file_.id(); }
  /// Returns whether the object `path` exists. Throws InputError for dangling, cyclic and external links.
  bool has(const std::string& path) const;
  /// Opens an HDF5 group or a dataset. Throws InputError if it does not exist.
  h5::Handle open_object(const std::string& path) const;
  /// Opens a dataset. Throws InputError for HDF5 groups, variable-length types, storage in other files,
  /// filters except shuffle and deflate, more than `max_dimensions` dimensions, and shapes larger than the
  /// stored bytes allow.
  Hdf5Dataset open(const std::string& path, int max_dimensions) const;
  /// Returns the scalar integers, floating-point values and strings of the root HDF5 group, and its lists of
  /// floating-point values. Other attributes are skipped. Throws InputError for variable-length types.
  Attributes attributes() const;
  /// Returns the ids in a dataset of integers or fixed-length strings. Throws InputError for other types and
  /// for integers beyond int64.
  IdList ids(const std::string& path) const;
  /// Throws FileInUseError if the file is locked, else InputError with advice to create it again.
  [[noreturn]] void refuse_damaged(const std::string& problem) const;
  /// Throws InputError("{path}: {problem}").
  [[noreturn]] void refuse(const std::string& problem) const;

 private:
  void reject_variable_length(hid_t type, const std::string& what) const;
  void check_storage(Hdf5Dataset& dataset) const;
  void read_attribute(hid_t attribute, Attributes& to) const;

  std::string path_;
  h5::Handle links_;  // access property list that rejects external links
  h5::Handle file_;
};

}  // namespace vaecf::io
