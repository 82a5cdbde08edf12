#pragma once

#include <vaecf/io/dataset_file.hpp>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace vaecf::io {

/// Values of some users, one per user in each column.
struct UserColumns {
  struct Column {
    std::string path;  ///< path of the dataset in the file: "history", "ease/ndcg@100"
    std::variant<std::vector<std::int64_t>, std::vector<double>> values;
  };
  IdList users;
  std::vector<Column> columns;
  Attributes attributes;
};

/// Writes an HDF5 file with /user_id and one dataset per column, atomically. Replaces an existing file.
/// Throws RunError if the disk is full or not writable.
void write_user_columns(const std::string& path, const UserColumns& content);

}  // namespace vaecf::io
