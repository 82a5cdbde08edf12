#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "io/hdf5/hdf5.hpp"

namespace vaecf::testing {

/// Reader of a file in tests/reference; the script there that writes it describes its contents.
class ReferenceFile {
 public:
  explicit ReferenceFile(const std::string& path) : reader_(path, "run the script beside it") {}

  bool has(const std::string& name) const {
    return reader_.as_input_error([&] { return reader_.has(name); });
  }
  /// Returns all elements of a dataset, row-major.
  template <class T = double>
  std::vector<T> at(const std::string& name) const {
    return reader_.as_input_error([&] {
      const io::Hdf5Dataset dataset = reader_.open(name, 2);
      std::size_t count = 1;
      for (const std::int64_t size : dataset.shape) count *= static_cast<std::size_t>(size);
      std::vector<T> values(count);
      io::h5::read_rows(dataset.id.id(), io::h5::native_type<T>(), 0, dataset.shape[0], values.data());
      return values;
    });
  }
  double number(const std::string& name) const { return at(name).at(0); }
  io::IdList names(const std::string& name) const {
    return reader_.as_input_error([&] { return reader_.ids(name); });
  }

 private:
  io::Hdf5Reader reader_;
};

}  // namespace vaecf::testing
