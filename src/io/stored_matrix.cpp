#include "io/stored_matrix.hpp"

#include <algorithm>
#include <cmath>

namespace vaecf::io {
namespace {

void require_integers(const Hdf5Reader& file, const Hdf5Dataset& dataset) {
  if (dataset.kind() != H5T_INTEGER) file.refuse(format("{} does not hold integers", dataset.name));
}

// Of the rows from `first` on.
void check_offsets(const Hdf5Reader& file, const StoredMatrix& matrix, std::int64_t first,
                   std::span<const std::int64_t> offsets) {
  for (std::size_t r = 0; r + 1 < offsets.size(); ++r) {
    if (offsets[r] < 0 || offsets[r] > offsets[r + 1] || offsets[r + 1] > matrix.entries()) {
      file.refuse(format("{} row {}: offsets {} and {} do not rise within 0 to {}", matrix.offsets.name,
                         first + static_cast<std::int64_t>(r), offsets[r], offsets[r + 1], matrix.entries()));
    }
  }
}

void check_columns(const Hdf5Reader& file, const StoredMatrix& matrix, Range rows, const CsrView& csr,
                   std::int64_t width) {
  for (std::int64_t r = 0; r < csr.rows(); ++r) {
    std::int64_t previous = -1;
    for (const std::int64_t column : csr.row(r)) {
      if (column < 0 || column >= width) {
        file.refuse(format("{} row {}: column {} is outside 0 to {}", matrix.columns.name, rows.begin + r,
                           column, width - 1));
      }
      if (column <= previous) {
        file.refuse(format("{} row {}: column {} {}; columns must be ascending and unique",
                           matrix.columns.name, rows.begin + r, column,
                           column == previous ? "appears twice" : format("follows {}", previous)));
      }
      previous = column;
    }
  }
}

void check_weights(const Hdf5Reader& file, const Hdf5Dataset& weights, std::int64_t begin,
                   std::int64_t count) {
  constexpr std::int64_t piece = std::int64_t{1} << 20;
  std::vector<double> values;
  for (std::int64_t done = 0; done < count; done += piece) {
    values.resize(static_cast<std::size_t>(std::min(piece, count - done)));
    h5::read_elements<double>(weights.id.id(), begin + done, values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::int64_t entry = begin + done + static_cast<std::int64_t>(i);
      if (!std::isfinite(values[i])) file.refuse(format("{} entry {} is not a number", weights.name, entry));
      if (values[i] != 1.0) {
        file.refuse(format("{} entry {} is {}: weights other than 1 are not supported yet; remove {}",
                           weights.name, entry, values[i], weights.name));
      }
    }
  }
}

std::int64_t offset_at(const StoredMatrix& matrix, std::int64_t row) {
  std::int64_t value = 0;
  h5::read_elements<std::int64_t>(matrix.offsets.id.id(), row, {&value, 1});
  return value;
}

}  // namespace

std::optional<StoredMatrix> open_matrix(const Hdf5Reader& file, const std::string& name) {
  if (!file.has(name)) return std::nullopt;
  StoredMatrix matrix{file.open(name + "/indptr", 1), file.open(name + "/indices", 1), std::nullopt};
  require_integers(file, matrix.offsets);
  require_integers(file, matrix.columns);
  if (matrix.offsets.shape[0] < 1) {
    file.refuse(
        format("{} is empty; it must start with 0 and have one entry more than rows", matrix.offsets.name));
  }
  if (const auto first = offset_at(matrix, 0); first != 0) {
    file.refuse(format("{} starts with {} instead of 0", matrix.offsets.name, first));
  }
  if (const auto last = offset_at(matrix, matrix.rows()); last != matrix.entries()) {
    file.refuse(format("{} ends with {}, but {} has {} entries", matrix.offsets.name, last,
                       matrix.columns.name, matrix.entries()));
  }
  if (file.has(name + "/data")) {
    matrix.weights = file.open(name + "/data", 1);
    if (matrix.weights->kind() != H5T_FLOAT && matrix.weights->kind() != H5T_INTEGER) {
      file.refuse(format("{} does not hold numbers", matrix.weights->name));
    }
    if (matrix.weights->shape != matrix.columns.shape) {
      file.refuse(format("{} has {} entries, but {} has {}", matrix.weights->name, matrix.weights->shape[0],
                         matrix.columns.name, matrix.entries()));
    }
  }
  return matrix;
}

Csr read_rows(const Hdf5Reader& file, const StoredMatrix& matrix, Range rows, std::int64_t width) {
  Csr read;
  read.offsets.resize(static_cast<std::size_t>(rows.size()) + 1);
  h5::read_elements<std::int64_t>(matrix.offsets.id.id(), rows.begin, read.offsets);
  check_offsets(file, matrix, rows.begin, read.offsets);
  const std::int64_t first = read.offsets.front();
  const std::int64_t count = read.offsets.back() - first;
  // Wider integers are narrowed by the library to the largest int32, which is out of range here.
  read.columns.resize(static_cast<std::size_t>(count));
  h5::read_elements<std::int32_t>(matrix.columns.id.id(), first, read.columns);
  check_columns(file, matrix, rows, read.view(), width);
  if (matrix.weights) check_weights(file, *matrix.weights, first, count);
  for (auto& offset : read.offsets) offset -= first;
  return read;
}

void for_each_offset_piece(const Hdf5Reader& file, const StoredMatrix& matrix,
                           const std::function<void(std::span<const std::int64_t>)>& use) {
  constexpr std::int64_t piece = std::int64_t{1} << 16;
  const std::int64_t count = matrix.rows() + 1;
  std::vector<std::int64_t> offsets;
  std::int64_t last = 0;
  for (std::int64_t begin = 0; begin < count; begin += piece) {
    offsets.resize(static_cast<std::size_t>(std::min(piece, count - begin)));
    h5::read_elements<std::int64_t>(matrix.offsets.id.id(), begin, offsets);
    const std::int64_t seam[] = {last, offsets.front()};
    if (begin > 0) check_offsets(file, matrix, begin - 1, seam);
    check_offsets(file, matrix, begin, offsets);
    last = offsets.back();
    use(offsets);
  }
}

}  // namespace vaecf::io
