#pragma once

#include "io/hdf5/hdf5.hpp"

#include <vaecf/io/dataset_file.hpp>

#include <cstdint>
#include <new>
#include <string>
#include <vector>

namespace vaecf::io {

/// Refuses `path` with InputError unless it is a file that can be read. `make` says how to get one.
void require_file(const std::string& path, const std::string& make);

/// A dataset that passed the checks of Hdf5Reader::open.
struct Hdf5Dataset {
  h5::Handle id;
  h5::Handle type;
  std::string name;                 ///< as asked for, for messages
  std::vector<std::int64_t> shape;  ///< one entry per dimension
  int deflate = 0;                  ///< the level at which it is deflated, 0 if it is not

  H5T_class_t kind() const { return H5Tget_class(type.id()); }
  /// Returns `count` elements from `begin` on, of a dataset of one dimension.
  template <class T>
  std::vector<T> read(std::int64_t begin, std::int64_t count) const {
    std::vector<T> values(static_cast<std::size_t>(count));
    h5::read_rows(id.id(), h5::memory_type<T>(), begin, count, values.data());
    return values;
  }
};

/// An HDF5 file opened for reading without locks, and its objects looked at before they are touched.
/// All members but reading() are called inside it, and throw InputError or h5::Failure.
class Hdf5Reader {
 public:
  /// `make`: what the user may run to get such a file. Throws InputError if the file cannot be opened.
  Hdf5Reader(std::string path, const std::string& make);

  /// Runs `work`, which reads the file. Throws what the library refuses as InputError.
  template <class Work>
  decltype(auto) reading(Work&& work) const {
    const auto lock = h5::lock_library();
    try {
      return work();
    } catch (const h5::Failure& failure) {
      refuse(format("{}; the file may be damaged: make or copy it again", failure.what()));
    } catch (const std::bad_alloc&) {
      refuse("what it claims to hold does not fit into this machine's memory");
    } catch (const std::length_error&) {
      refuse("it claims to hold more than any memory can");
    }
  }

  const std::string& path() const { return path_; }
  hid_t id() const { return file_.id(); }
  /// Refuses links that lead nowhere or to other files.
  bool has(const std::string& path) const;
  /// Opens a group or a dataset.
  h5::Handle open_object(const std::string& path) const;
  /// Refuses groups, variable lengths, storage in other files, filters but shuffle and deflate, more than
  /// `max_dimensions`, and sizes that the file's bytes cannot hold.
  Hdf5Dataset open(const std::string& path, int max_dimensions) const;
  /// Returns the root's scalar numbers and strings, and lists of floating-point numbers; other kinds are
  /// passed over. Refuses strings of variable length and absurd sizes.
  Attributes attributes() const;
  /// Returns the ids in a dataset: integers become numbers, strings of fixed length strings.
  IdList ids(const std::string& path) const;
  [[noreturn]] void refuse(const std::string& problem) const;

 private:
  void refuse_variable_length(hid_t type, const std::string& what) const;
  void check_storage(Hdf5Dataset& dataset) const;
  void read_attribute(hid_t attribute, Attributes& to) const;

  std::string path_;
  h5::Handle links_;  // how links are followed
  h5::Handle file_;
};

}  // namespace vaecf::io
