#pragma once

#include "io/input_file.hpp"

#include <vaecf/base/views.hpp>
#include <vaecf/io/dataset_file.hpp>

namespace vaecf::io {

/// Writes ids as int64 or as strings of one fixed length, in pieces. InputError for absurdly long ones.
void write_id_list(hid_t file, const std::string& path, const IdList& ids);

/// Elements `range` of an opened id dataset: integers become numbers, strings of fixed length strings.
IdList read_id_list(const InputFile& file, const InputDataset& dataset, Range range);

}  // namespace vaecf::io
