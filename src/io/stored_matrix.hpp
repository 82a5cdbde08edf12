#pragma once

#include <vaecf/base/views.hpp>

#include <algorithm>
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

/// Nothing where it is not there. All of this throws InputError, naming file, dataset and row, or
/// h5::Failure.
std::optional<StoredMatrix> open_matrix(const InputFile& file, const std::string& name);

/// Entries before `row`, as the file has it.
std::int64_t offset_at(const StoredMatrix& matrix, std::int64_t row);

/// Appends `rows` to `to`, read with one hyperslab, and checks them: offsets rise, columns are ascending,
/// unique and below `width`, weights are 1.
void append_rows(const InputFile& file, const StoredMatrix& matrix, Range rows, std::int64_t width, Csr& to);

/// Calls use(elements) for all `count` elements of an opened dataset, piece by piece.
template <class Use>
void for_each_piece(hid_t dataset, std::int64_t count, Use use) {
  constexpr std::int64_t piece = std::int64_t{1} << 16;
  std::vector<std::int64_t> values;
  for (std::int64_t begin = 0; begin < count; begin += piece) {
    values.resize(static_cast<std::size_t>(std::min(piece, count - begin)));
    h5::read_elements<std::int64_t>(dataset, begin, values);
    use(std::span<const std::int64_t>(values));
  }
}

/// Calls use(offsets) for all rows + 1 offsets, piece by piece, each checked.
void for_each_offset_piece(const InputFile& file, const StoredMatrix& matrix,
                           const std::function<void(std::span<const std::int64_t>)>& use);

}  // namespace vaecf::io
