#pragma once

#include <gtest/gtest.h>
#include <hdf5.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace vaecf::testing {

/// Returns the elements of a dataset of numbers in an HDF5 file, read without the code of the program.
template <class T>
std::vector<T> hdf5_values(const std::string& path, const char* name) {
  const hid_t type = std::is_same_v<T, double>  ? H5T_NATIVE_DOUBLE
                     : std::is_same_v<T, float> ? H5T_NATIVE_FLOAT
                                                : H5T_NATIVE_INT32;
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
  const hid_t space = H5Dget_space(dataset);
  std::vector<T> values(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
  EXPECT_GE(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0) << name;
  H5Sclose(space);
  H5Dclose(dataset);
  H5Fclose(file);
  return values;
}

}  // namespace vaecf::testing
