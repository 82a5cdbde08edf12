#pragma once

#include <vaecf/base/views.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/input_file.hpp"

namespace vaecf::io {

/// A matrix of an open file, its shapes checked.
struct StoredMatrix {
  InputDataset offsets;
  InputDataset columns;
  std::optional<InputDataset> weights;
  std::int64_t rows() const { return offsets.shape[0] - 1; }
  std::int64_t entries() const { return columns.shape[0]; }
};

/// Matrices of one file, in the order of matrix_names.
using Matrices = std::vector<std::optional<StoredMatrix>>;

/// Nothing where it is not there. All of this throws InputError, naming file, dataset and row, or
/// h5::Failure.
std::optional<StoredMatrix> open_matrix(const InputFile& file, const std::string& name);

/// Reads `rows`, at least one, with one hyperslab, and checks them: offsets rise, columns are ascending,
/// unique and below `width`, weights are 1.
Csr read_rows(const InputFile& file, const StoredMatrix& matrix, Range rows, std::int64_t width);

/// Calls use(offsets) for all rows + 1 offsets, piece by piece, each checked.
void for_each_offset_piece(const InputFile& file, const StoredMatrix& matrix,
                           const std::function<void(std::span<const std::int64_t>)>& use);

}  // namespace vaecf::io
