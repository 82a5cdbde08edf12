#pragma once

#include <hdf5.h>

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace vaecf::test {

/// Edits an HDF5 file with the C library, to create unusual files that must be read or rejected. Throws
/// std::logic_error if an edit fails, so that no test passes by accident.
class Hdf5Editor {
 public:
  /// Opens `path`, or creates it if it does not exist.
  explicit Hdf5Editor(const std::string& path)
      : file_(std::filesystem::exists(path)
                  ? H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT)
                  : H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT)) {
    require(file_);
  }
  ~Hdf5Editor() { H5Fclose(file_); }
  Hdf5Editor(const Hdf5Editor&) = delete;
  Hdf5Editor& operator=(const Hdf5Editor&) = delete;

  enum class Packing { none, gzip, fletcher32 };

  void remove(const std::string& path) { require(H5Ldelete(file_, path.c_str(), H5P_DEFAULT)); }
  void remove_attribute(const std::string& name) { require(H5Adelete(file_, name.c_str())); }

  void put_integers(const std::string& path, const std::vector<std::int64_t>& values, hid_t type,
                    Packing packing = Packing::none) {
    put(path, type, {values.size()}, H5T_NATIVE_INT64, values.data(), packing);
  }
  void put_doubles(const std::string& path, const std::vector<double>& values, hid_t type) {
    put(path, type, {values.size()}, H5T_NATIVE_DOUBLE, values.data(), Packing::none);
  }
  void put_table(const std::string& path, hsize_t rows, hsize_t columns) {
    const std::vector<std::int64_t> zeros(rows * columns);
    put(path, H5T_STD_I64LE, {rows, columns}, H5T_NATIVE_INT64, zeros.data(), Packing::none);
  }
  /// Creates a dataset that declares `count` int64 values and stores none.
  void put_claim(const std::string& path, hsize_t count, bool chunked) {
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t chunk = 1024;
    if (chunked) require(H5Pset_chunk(creation, 1, &chunk));
    H5Dclose(create(path, H5T_STD_I64LE, {count}, creation));
    H5Pclose(creation);
  }
  void put_variable_strings(const std::string& path, const std::vector<std::string>& values) {
    std::vector<const char*> pointers;
    for (const auto& value : values) pointers.push_back(value.c_str());
    const hid_t type = variable_string();
    put(path, type, {values.size()}, type, pointers.data(), Packing::none);
    H5Tclose(type);
  }
  void put_integer_attribute(const std::string& name, std::int64_t value) {
    put_attribute(name, H5T_NATIVE_INT64, &value);
  }
  void put_double_attribute(const std::string& name, double value) {
    put_attribute(name, H5T_NATIVE_DOUBLE, &value);
  }
  /// Sets an attribute, which may exist.
  void put_string_attribute(const std::string& name, const std::string& value) {
    if (H5Aexists(file_, name.c_str()) > 0) remove_attribute(name);
    const hid_t type = H5Tcopy(H5T_C_S1);
    require(H5Tset_size(type, value.size()));
    put_attribute(name, type, value.data());
    H5Tclose(type);
  }
  void put_variable_string_attribute(const std::string& name, const std::string& value) {
    const hid_t type = variable_string();
    const char* pointer = value.c_str();
    put_attribute(name, type, &pointer);
    H5Tclose(type);
  }
  void put_hdf5_group(const std::string& path) {
    const hid_t made = H5Gcreate2(file_, path.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    require(made);
    H5Gclose(made);
  }
  void put_soft_link(const std::string& path, const std::string& target) {
    require(H5Lcreate_soft(target.c_str(), file_, path.c_str(), H5P_DEFAULT, H5P_DEFAULT));
  }
  void put_external_link(const std::string& path, const std::string& file, const std::string& target) {
    require(H5Lcreate_external(file.c_str(), target.c_str(), file_, path.c_str(), H5P_DEFAULT, H5P_DEFAULT));
  }
  /// Creates a dataset of int64 values that are stored in another file.
  void put_external_storage(const std::string& path, hsize_t count, const std::string& file) {
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    require(H5Pset_external(creation, file.c_str(), 0, count * sizeof(std::int64_t)));
    H5Dclose(create(path, H5T_STD_I64LE, {count}, creation));
    H5Pclose(creation);
  }

 private:
  template <class Result>
  static void require(Result result) {
    if (result < 0) throw std::logic_error("an HDF5 call of the test itself failed");
  }

  static hid_t variable_string() {
    const hid_t type = H5Tcopy(H5T_C_S1);
    require(H5Tset_size(type, H5T_VARIABLE));
    return type;
  }

  hid_t create(const std::string& path, hid_t type, const std::vector<hsize_t>& shape, hid_t creation) {
    const hid_t links = H5Pcreate(H5P_LINK_CREATE);
    require(H5Pset_create_intermediate_group(links, 1));
    const hid_t space = H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
    const hid_t dataset = H5Dcreate2(file_, path.c_str(), type, space, links, creation, H5P_DEFAULT);
    require(dataset);
    H5Sclose(space);
    H5Pclose(links);
    return dataset;
  }

  void put(const std::string& path, hid_t type, const std::vector<hsize_t>& shape, hid_t memory,
           const void* values, Packing packing) {
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t chunk = 2;
    if (packing != Packing::none) require(H5Pset_chunk(creation, 1, &chunk));
    if (packing == Packing::gzip) {
      require(H5Pset_shuffle(creation));
      require(H5Pset_deflate(creation, 6));
    }
    if (packing == Packing::fletcher32) require(H5Pset_fletcher32(creation));
    const hid_t dataset = create(path, type, shape, creation);
    require(H5Dwrite(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    H5Dclose(dataset);
    H5Pclose(creation);
  }

  void put_attribute(const std::string& name, hid_t type, const void* value) {
    const hid_t scalar = H5Screate(H5S_SCALAR);
    const hid_t attribute = H5Acreate2(file_, name.c_str(), type, scalar, H5P_DEFAULT, H5P_DEFAULT);
    require(attribute);
    require(H5Awrite(attribute, type, value));
    H5Aclose(attribute);
    H5Sclose(scalar);
  }

  hid_t file_;
};

}  // namespace vaecf::test
