#pragma once

#include "io/hdf5_reader.hpp"

#include <vaecf/base/views.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <string>
#include <string_view>

namespace vaecf::io {

/// Writes `attributes` to the root of an open file: int64, double, a list of doubles, or a
/// string of fixed length.
void write_attributes(hid_t file, const Attributes& attributes);

/// The root's scalar numbers and strings, and lists of floating-point numbers; other kinds are passed over.
/// InputError, naming `path`, for a string of variable length, or for an absurd size.
Attributes read_attributes(hid_t file, const std::string& path);

/// The type that holds a string of `size` bytes as it is, filled up with zeros.
h5::Handle string_type(std::size_t size);

/// Cuts off the filling of one element of a string type.
std::string strip_filling(std::string_view bytes, H5T_str_t filling);

/// InputError where `type` holds strings or sequences of variable length: libhdf5 1.10 may crash on damaged
/// ones.
void refuse_variable_length(hid_t type, const std::string& path, std::string_view what);

/// Writes ids as int64 or as strings of one fixed length, in pieces. InputError for absurdly long ones.
void write_id_list(hid_t file, const std::string& path, const IdList& ids);

/// Elements `range` of an opened id dataset: integers become numbers, strings of fixed length strings.
IdList read_id_list(const Hdf5Reader& file, const Hdf5Dataset& dataset, Range range);

}  // namespace vaecf::io
