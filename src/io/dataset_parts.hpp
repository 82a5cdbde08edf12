#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/io/checkpoint.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/input_file.hpp"
#include "io/stored_matrix.hpp"

namespace vaecf::io {

// Datasets in several files. /train, and /train/features where there are any, lie in all of them, rows in
// sequence; all else is in the first, and so is a table of who has what: datasets /parts/train_rows,
// /parts/train_entries and /parts/features_entries, of one number more than files, sums of all files before.
// Attributes of each file: `part` (number from 0), `parts` (how many) and `parts_of` (the checksum of the
// whole dataset).

inline constexpr const char* part_attribute = "part";
inline constexpr const char* parts_attribute = "parts";
inline constexpr const char* parts_of_attribute = "parts_of";
inline constexpr const char* part_rows_path = "parts/train_rows";
inline constexpr const char* part_entries_path = "parts/train_entries";
inline constexpr const char* part_feature_entries_path = "parts/features_entries";

/// Matrices of one file, in the order of matrix_names.
using Matrices = std::vector<std::optional<StoredMatrix>>;

struct PartOf {
  std::int64_t number = 0;
  std::int64_t count = 1;
  std::string whole;
};

/// Which part of which dataset a file is; takes that out of its attributes.
PartOf take_part(const InputFile& file, Attributes& attributes);

/// Finds rows of a dataset in its files, and opens those when they are needed. Safe to use from several
/// threads as far as the library is.
class DatasetParts {
 public:
  /// `first` and its matrices must outlive this. InputError unless `paths`, matched by `asked_for`, are as
  /// many as there are parts, and the first is the first.
  DatasetParts(std::vector<std::string> paths, const std::string& asked_for, PartOf part,
               const InputFile& first, const Matrices& matrices);

  std::int64_t count() const { return part_.count; }
  /// The checksum of the whole dataset.
  const std::string& whole() const { return part_.whole; }
  /// Whether matrix_names[matrix] lies in several files.
  bool spread(std::size_t matrix) const { return spread_as_[matrix].has_value(); }
  std::int64_t rows() const { return first_row_.back(); }
  std::int64_t entries(std::size_t matrix) const;
  /// InputError where a file is missing or not of this dataset, and as append_rows() of stored_matrix.hpp.
  void append_rows(std::size_t matrix, Range rows, std::int64_t width, Csr& to) const;
  void open_all() const;

 private:
  struct OpenPart {
    explicit OpenPart(const std::string& path);
    InputFile file;
    std::map<std::size_t, StoredMatrix> matrices;  // /train and /train/features
  };
  const OpenPart& opened(std::size_t part) const;
  void check_number_of_files(const std::string& asked_for) const;

  std::vector<std::string> paths_;
  PartOf part_;
  const InputFile* first_;
  const Matrices* matrices_;
  std::vector<std::optional<std::size_t>> spread_as_;             // matrix -> /train or /train/features
  std::vector<std::int64_t> first_row_;                           // and their number
  std::map<std::size_t, std::vector<std::int64_t>> first_entry_;  // the same, by matrix
  mutable std::vector<std::unique_ptr<OpenPart>> others_;         // [0] is never there
};

}  // namespace vaecf::io
