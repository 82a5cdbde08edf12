#pragma once

#include <vaecf/base/views.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/hdf5_reader.hpp"

namespace vaecf::io {

/// Every matrix of a dataset file, in the order in which fingerprints see them.
inline constexpr std::array<std::string_view, 8> matrix_names = {
    "train",         "validation/fold_in", "validation/held_out", "test/fold_in",
    "test/held_out", "train/features",     "validation/features", "test/features"};

/// From here on the columns of a matrix are features of users, not items, and it may be absent.
inline constexpr std::size_t first_features = 5;
/// The matrix whose users those of matrix_names[first_features + i] are.
inline constexpr std::array<std::size_t, 3> users_of_features = {0, 1, 3};

/// Position of `name` in matrix_names; InputError if it is none of them.
std::size_t matrix_index(std::string_view name);

/// A matrix of an open file, its shapes checked.
struct StoredMatrix {
  Hdf5Dataset offsets;
  Hdf5Dataset columns;
  std::optional<Hdf5Dataset> weights;
  std::int64_t rows() const { return offsets.shape[0] - 1; }
  std::int64_t entries() const { return columns.shape[0]; }
};

/// Matrices of one file, in the order of matrix_names.
using Matrices = std::vector<std::optional<StoredMatrix>>;

/// Nothing where it is not there. All of this throws InputError, naming file, dataset and row, or
/// h5::Failure.
std::optional<StoredMatrix> open_matrix(const Hdf5Reader& file, const std::string& name);

/// Reads `rows`, at least one, with one hyperslab, and checks them: offsets rise, columns are ascending,
/// unique and below `width`, weights are 1.
Csr read_rows(const Hdf5Reader& file, const StoredMatrix& matrix, Range rows, std::int64_t width);

/// Calls use(offsets) for all rows + 1 offsets, piece by piece, each checked.
void for_each_offset_piece(const Hdf5Reader& file, const StoredMatrix& matrix,
                           const std::function<void(std::span<const std::int64_t>)>& use);

}  // namespace vaecf::io
