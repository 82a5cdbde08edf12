#pragma once

#include <vaecf/base/views.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/hdf5/hdf5.hpp"

namespace vaecf::io {

/// Number of the format of dataset files, attribute `format_version`. Other numbers are refused.
inline constexpr std::int64_t dataset_format = 3;

/// Names of all matrices of a dataset file, in the order in which fingerprints cover them.
inline constexpr std::array<std::string_view, 9> matrix_names = {
    "train",         "validation/fold_in",  "validation/held_out",      "test/fold_in",
    "test/held_out", "train/user_features", "validation/user_features", "test/user_features",
    "items/features"};

/// Returns whether entries of a matrix may have weights.
constexpr bool may_have_weights(std::string_view matrix) {
  return matrix == "train" || matrix == "validation/fold_in" || matrix == "test/fold_in";
}

/// Index of the first matrix whose columns are features instead of items. Such a matrix may be absent. The
/// last one has a row per item, the others a row per user.
inline constexpr std::size_t first_features = 5;
inline constexpr std::size_t features_of_items = 8;

/// Returns the name of the attribute with the number of columns of a matrix.
constexpr const char* width_attribute(std::size_t matrix) {
  if (matrix < first_features) return "items";
  return matrix == features_of_items ? "item_features" : "user_features";
}

/// Returns the index of `name` in matrix_names. Throws InputError if there is none.
std::size_t matrix_index(std::string_view name);

/// CSR matrix of an open file, with validated shapes. All functions throw InputError, naming file, dataset
/// and row, or h5::Error.
class StoredMatrix {
 public:
  /// `file` must outlive this object.
  StoredMatrix(const Hdf5Reader& file, const std::string& name);

  std::int64_t rows() const { return offsets_.shape[0] - 1; }
  std::int64_t entries() const { return columns_.shape[0]; }
  int deflate() const { return columns_.deflate; }

  /// Returns whether the matrix has weights.
  bool weighted() const { return weights_.has_value(); }

  /// Reads `rows`, at least one, with one hyperslab. Checks that offsets are ascending, that columns are
  /// ascending, unique and below `width`, that weights are finite and above 0, and that all elements of
  /// `data` are 1.
  Csr read(Range rows, std::int64_t width) const;

  /// Returns the rows.size() + 1 offsets of `rows` and checks that they are ascending.
  std::vector<std::int64_t> offsets(Range rows) const;

 private:
  void check_columns(std::int64_t first_row, const CsrView& rows, std::int64_t width) const;
  /// Opens an array with one number per entry.
  Hdf5Dataset open_values(const std::string& name) const;
  void check_data(std::int64_t begin, std::int64_t end) const;
  std::vector<float> read_weights(std::int64_t first_row, std::span<const std::int64_t> offsets) const;

  const Hdf5Reader* file_;
  Hdf5Dataset offsets_;
  Hdf5Dataset columns_;
  std::optional<Hdf5Dataset> weights_;
  std::optional<Hdf5Dataset> data_;  // of SciPy: all 1
};

}  // namespace vaecf::io
