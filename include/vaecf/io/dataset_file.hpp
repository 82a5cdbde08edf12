#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/io/checkpoint.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace vaecf::io {

/// Ids as the source wrote them: all int64, or strings.
struct IdList {
  std::vector<std::int64_t> numbers;  ///< used when `strings` is empty
  std::vector<std::string> strings;
  bool numeric() const { return strings.empty(); }
  std::int64_t size() const;
  std::string text(std::int64_t index) const;
  IdList only(std::int64_t index) const;  ///< that id alone, of the same kind
};

/// Writes a dataset file (layout: `/train/{indptr,indices}`, `/validation/{fold_in,held_out}/...`, ids,
/// attributes) row by row in bounded memory. Everything goes to a temporary file beside `path`; commit()
/// gives it its name, and a writer destroyed before leaves nothing. RunError where the disk is full.
class DatasetWriter {
 public:
  /// `compression` of matrices: 0 none, 1 to 9 shuffle and deflate of this level.
  explicit DatasetWriter(const std::string& path, std::int64_t compression = 0);
  ~DatasetWriter();

  /// Appends a row, ascending and unique columns, to one of "train", "validation/fold_in",
  /// "validation/held_out", "test/fold_in", "test/held_out", or to what is known of those users:
  /// "train/features", "validation/features" (of validation/fold_in) and "test/features". InputError for
  /// another name.
  void append_row(const std::string& matrix, std::span<const std::int32_t> columns);
  /// Makes `path` (a matrix without rows, or ids) another name of `target`, e.g. "test/fold_in" of "train".
  void link(const std::string& path, const std::string& target);
  /// `path` e.g. "items/id", "train/user_id". InputError for ids beyond 4096 bytes.
  void write_ids(const std::string& path, const IdList& ids);
  /// The last value of a name counts; format_version = 1 is set already.
  void set_attribute(const std::string& name, const Attribute& value);
  /// Writes what is left (all five matrices, empty ones too, and those of features where attribute `features`
  /// is above 0) and gives the file its name. Attribute `items` must be set. Nothing may be called
  /// afterwards.
  void commit();

 private:
  struct File;
  std::unique_ptr<File> file_;
};

/// A dataset file, opened for reading (shared by ranks, without file locks). Everything is checked before
/// use: shapes, monotone offsets, columns in range, ascending and unique, no variable-length strings, no
/// external links, no filters but shuffle and deflate. InputError with file, dataset and row otherwise.
/// Offsets and columns may be integers of any width and byte order, stored in any layout; `data` beside
/// `indices` is accepted where all of it is 1. Attribute `items` and group /train must be there.
class DatasetFile {
 public:
  explicit DatasetFile(const std::string& path);

  const std::string& path() const;
  std::int64_t items() const;
  /// Columns of the matrices of features; 0 where nothing is known of users but their items.
  std::int64_t features() const;
  std::int64_t rows(const std::string& matrix) const;  ///< 0 where the matrix is absent
  std::int64_t entries(const std::string& matrix) const;
  /// As DatasetWriter was told it.
  std::int64_t compression() const;
  /// Attributes of / that are single numbers or strings.
  const Attributes& attributes() const;
  /// Rows [rows.begin, rows.end), offsets starting at 0, read with one hyperslab and checked. Columns lie in
  /// [0, items()), those of features in [0, features()).
  Csr read_rows(const std::string& matrix, Range rows) const;
  bool has_ids(const std::string& path) const;
  /// InputError where they are absent, or neither integers nor strings of fixed length.
  IdList read_ids(const std::string& path) const;
  /// Tells two datasets apart: xxh3 over the offsets of all matrices and the attributes, and over items and
  /// ids of a file that `prepare` and `synthesize` did not make. Reads them each time.
  std::string fingerprint() const;

 private:
  struct Content;
  std::shared_ptr<const Content> content_;  // copies share the open file
};

/// Returns whether an intact dataset that `prepare` or `synthesize` wrote is at `path`. Reads all of it.
/// Throws InputError if any other file is there and `replace` is not set.
bool check_replaceable(const std::string& path, bool replace);

}  // namespace vaecf::io
