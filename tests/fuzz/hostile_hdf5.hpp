#pragma once

#include <string>
#include <vector>

#include "fuzz/support.hpp"
#include "support/bad_hdf5.hpp"

/// HDF5 files with fuzzed shapes, types and values. They are written by the library itself, so only their
/// contents are hostile, not their encoding.
namespace vaecf::fuzz {

inline hid_t any_integer_type(Input& input) {
  const hid_t types[] = {H5T_STD_I8LE,  H5T_STD_I16BE, H5T_STD_I32LE, H5T_STD_I64LE,
                         H5T_STD_I64BE, H5T_STD_U8LE,  H5T_STD_U32LE, H5T_STD_U64LE};
  return input.pick(types);
}

/// Returns mostly small integers, sometimes arbitrary ones.
inline std::int64_t any_number(Input& input) {
  switch (input.number<int>(0, 7)) {
    case 0:
      return input.any<std::int64_t>();
    case 1:
      return input.any<std::int32_t>();
    default:
      return input.number<std::int64_t>(0, 12);
  }
}

inline std::vector<std::int64_t> any_numbers(Input& input, bool ascending) {
  std::vector<std::int64_t> values;
  std::int64_t sum = 0;
  for (int n = input.number<int>(0, 12); n > 0; --n) {
    const std::int64_t step = any_number(input);
    if (ascending && __builtin_add_overflow(sum, step, &sum)) sum = step;
    values.push_back(ascending ? sum : step);
  }
  return values;
}

/// Writes one dataset in one of several forms, often a valid one.
inline void put_something(Input& input, test::Hdf5Editor& file, const std::string& path, bool ascending) {
  using Packing = test::Hdf5Editor::Packing;
  switch (input.number<int>(0, 15)) {
    case 0:
      return;
    case 1:
      return file.put_hdf5_group(path);
    case 2: {
      const auto rows = input.number<hsize_t>(0, 3);
      return file.put_table(path, rows, input.number<hsize_t>(0, 3));
    }
    case 3: {
      const auto claimed = input.any<std::uint32_t>();
      return file.put_claim(path, claimed, input.coin());
    }
    case 4: {
      std::vector<double> values;
      for (int n = input.number<int>(0, 6); n > 0; --n) {
        values.push_back(input.any<double>());
      }
      return file.put_doubles(path, values, input.coin() ? H5T_IEEE_F64LE : H5T_STD_I32LE);
    }
    case 5:
      return file.put_variable_strings(path, {input.text(8)});
    case 6:
      return file.put_soft_link(path, input.coin() ? "/train/indptr" : path);
    case 7:
      return file.put_external_link(path, "other.h5", "/x");
    case 8: {
      const auto values = any_numbers(input, ascending);
      const hid_t type = any_integer_type(input);
      const Packing packing = input.coin() ? Packing::gzip : Packing::fletcher32;
      return file.put_integers(path, values, type, values.empty() ? Packing::none : packing);
    }
    default: {
      const auto values = any_numbers(input, ascending);
      return file.put_integers(path, values, input.coin() ? H5T_STD_I64LE : any_integer_type(input));
    }
  }
}

inline void put_some_attribute(Input& input, test::Hdf5Editor& file, const std::string& name) {
  switch (input.number<int>(0, 7)) {
    case 0:
      return;
    case 1:
      return file.put_double_attribute(name, input.any<double>());
    case 2:
      return file.put_variable_string_attribute(name, "text");
    default:
      return file.put_integer_attribute(name, any_number(input));
  }
}

/// Writes a file with `fill`. Returns false if the HDF5 library refuses to write what it asks for.
template <class Fill>
bool write_hdf5(const std::string& path, Fill&& fill) {
  std::filesystem::remove(path);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  try {
    test::Hdf5Editor file(path);
    fill(file);
    return true;
  } catch (const std::logic_error&) {
    return false;
  }
}

}  // namespace vaecf::fuzz
