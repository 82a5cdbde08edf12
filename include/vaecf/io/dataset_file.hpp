#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/io/checkpoint.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace vaecf::io {

/// Writes a dataset file (layout: `/train/{indptr,indices}`, `/validation/{fold_in,held_out}/...`, ids,
/// attributes) row by row, in bounded memory and atomically. Everything goes to a temporary file next to
/// `path`. commit() renames it; destruction without commit() removes it. All functions throw RunError if the
/// disk is full or not writable.
class DatasetWriter {
 public:
  /// `compression` of the matrices: 0 none, 1 to 9 shuffle and deflate with this level. Throws InputError if
  /// HDF5 was built without deflate.
  explicit DatasetWriter(const std::string& path, std::int64_t compression = 0);
  ~DatasetWriter();

  /// Appends a row of ascending, unique columns to one of "train", "validation/fold_in",
  /// "validation/held_out", "test/fold_in" and "test/held_out", or to a feature matrix of these users
  /// ("train/user_features", "validation/user_features" and "test/user_features") or of the items
  /// ("items/features"). Rows of "train" and of both "fold_in" may have weights as values: then all of them
  /// have, and attribute `weights` must be set. Throws InputError if `matrix` is none of these.
  void append_row(const std::string& matrix, const SparseRow& row);
  /// Makes `path` (ids, or a matrix to which no row is appended) an alias of `target`, for example
  /// "test/fold_in" of "train".
  void link(const std::string& path, const std::string& target);
  /// Writes ids to `path`, for example "items/id" or "train/user_id". Throws InputError if an id is longer
  /// than 4096 bytes.
  void write_ids(const std::string& path, const IdList& ids);
  /// Sets an attribute of the file; the last value set for a name counts. format_version is preset.
  void set_attribute(const std::string& name, const Attribute& value);
  /// Writes the remaining data and gives the file its final name. All five interaction matrices are written,
  /// even if empty, and the feature matrices of users and of items if attribute `features` or
  /// `item_features` is above 0. Attribute `items` must be set. No function may be called afterwards.
  void commit();

 private:
  struct File;
  std::unique_ptr<File> file_;
};

/// A dataset file opened for reading, without file locks, since ranks share it. Copies share the open file.
/// All contents are validated before use: shapes, monotone offsets, columns in range, ascending and unique;
/// no variable-length strings, no external links, no filters except shuffle and deflate. Functions throw
/// InputError with file, dataset and row if a check fails. Offsets and columns may be integers of any width
/// and byte order in any layout. `weights` next to `indices` of "train" and of both "fold_in", in all of them
/// or in none, are finite and above 0; `data` is accepted if all its elements are 1. Attribute `items` and
/// HDF5 group /train are required.
class DatasetFile {
 public:
  explicit DatasetFile(const std::string& path);

  const std::string& path() const;
  std::int64_t items() const;
  /// Returns the number of columns of the feature matrices of users, 0 if the dataset has none.
  std::int64_t features() const;
  /// Returns the number of columns of "items/features", 0 if the dataset has no features of items.
  std::int64_t item_features() const;
  /// Returns the number of items without a train event that are known by their features only. They are the
  /// last items. Rows of "train" with such an item are refused.
  std::int64_t new_items() const;
  /// Returns whether "train" and both "fold_in" have interaction weights.
  bool weighted() const;
  std::int64_t rows(const std::string& matrix) const;  ///< 0 if the matrix is absent
  std::int64_t entries(const std::string& matrix) const;
  /// Returns the deflate level of the train matrix, 0 if it is not compressed.
  std::int64_t compression() const;
  /// Returns the scalar integer, floating-point and string attributes of /, and its lists of floating-point
  /// values.
  const Attributes& attributes() const;
  /// Reads rows [rows.begin, rows.end) with one hyperslab and validates them. The offsets of the result start
  /// at 0. Columns are in [0, items()), or in [0, features()) or [0, item_features()) for a feature matrix.
  /// Values are the weights, if the matrix has any.
  Csr read_rows(const std::string& matrix, Range rows) const;
  bool has_ids(const std::string& path) const;
  /// Reads the ids at `path`. Throws InputError if they are absent, or neither integers nor fixed-length
  /// strings.
  IdList read_ids(const std::string& path) const;
  /// Throws InputError if two items, or two users of one part, have the same id. Reads all ids, except in
  /// files made by `prepare` or `synthesize`, whose ids are unique.
  void require_unique_ids() const;
  /// Returns a fingerprint that identifies the dataset: xxh3 (64 bit) over all attributes and the offsets of
  /// all matrices. For files not written by `prepare` or `synthesize`, it also covers ids and items, sampled
  /// for large matrices. The first call reads these data, unless set_fingerprint() was called before.
  std::string fingerprint() const;
  /// Sets the fingerprint that another process has computed of the same file; the first one that is set or
  /// computed stays.
  void set_fingerprint(const std::string& fingerprint);

 private:
  std::string compute_fingerprint() const;

  struct Content;
  std::shared_ptr<const Content> content_;
};

/// Returns the ids stored at `path`; 0 .. count-1 if the file has none.
IdList ids_or_numbers(const DatasetFile& file, const std::string& path, std::int64_t count);

/// Returns whether `path` is an intact dataset that `prepare` or `synthesize` wrote. Reads all of it. Throws
/// InputError if any other regular file exists at `path` and `replace` is false.
bool check_replaceable(const std::string& path, bool replace);

}  // namespace vaecf::io
