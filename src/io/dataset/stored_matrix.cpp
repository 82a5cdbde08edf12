#include "io/dataset/stored_matrix.hpp"

#include <algorithm>

namespace vaecf::io {

std::size_t matrix_index(std::string_view name) {
  const auto found = std::ranges::find(matrix_names, name);
  if (found == matrix_names.end()) throw InputError(format("a dataset file has no matrix {}", name));
  return static_cast<std::size_t>(found - matrix_names.begin());
}

StoredMatrix::StoredMatrix(const Hdf5Reader& file, const std::string& name)
    : file_(&file), offsets_(file.open(name + "/indptr", 1)), columns_(file.open(name + "/indices", 1)) {
  for (const Hdf5Dataset* dataset : {&offsets_, &columns_}) {
    if (dataset->kind() != H5T_INTEGER) file.refuse(format("{} does not contain integers", dataset->name));
  }
  if (rows() < 0) {
    file.refuse(format("{} is empty; it must start with 0 and have one entry more than rows", offsets_.name));
  }
  if (const auto first = offsets_.read<std::int64_t>(0, 1).front(); first != 0) {
    file.refuse(format("{} starts with {} instead of 0", offsets_.name, first));
  }
  if (const auto last = offsets_.read<std::int64_t>(rows(), 1).front(); last != entries()) {
    file.refuse(
        format("{} ends with {}, but {} has {} entries", offsets_.name, last, columns_.name, entries()));
  }
  if (!file.has(name + "/data")) return;
  weights_ = file.open(name + "/data", 1);
  if (weights_->kind() != H5T_FLOAT && weights_->kind() != H5T_INTEGER) {
    file.refuse(format("{} does not contain numbers", weights_->name));
  }
  if (weights_->shape != columns_.shape) {
    file.refuse(format("{} has {} entries, but {} has {}", weights_->name, weights_->shape[0], columns_.name,
                       entries()));
  }
}

std::vector<std::int64_t> StoredMatrix::offsets(Range rows) const {
  auto offsets = offsets_.read<std::int64_t>(rows.begin, rows.size() + 1);
  for (std::size_t r = 0; r + 1 < offsets.size(); ++r) {
    if (offsets[r] < 0 || offsets[r] > offsets[r + 1] || offsets[r + 1] > entries()) {
      file_->refuse(format("{} row {}: offsets {} and {} are not ascending within 0 to {}", offsets_.name,
                           rows.begin + static_cast<std::int64_t>(r), offsets[r], offsets[r + 1], entries()));
    }
  }
  return offsets;
}

void StoredMatrix::check_columns(std::int64_t first_row, const CsrView& rows, std::int64_t width) const {
  for (std::int64_t r = 0; r < rows.rows(); ++r) {
    std::int64_t previous = -1;
    for (const std::int64_t column : rows.row(r)) {
      if (column <= previous || column >= width) {
        file_->refuse(format(
            "{} row {}: column {} is outside 0 to {}, or follows {}: columns must be ascending and unique",
            columns_.name, first_row + r, column, width - 1, previous));
      }
      previous = column;
    }
  }
}

void StoredMatrix::check_weights(std::int64_t begin, std::int64_t end) const {
  constexpr std::int64_t piece = std::int64_t{1} << 20;
  for (; begin < end; begin += piece) {
    const auto values = weights_->read<double>(begin, std::min(piece, end - begin));
    const auto other = std::ranges::find_if(values, [](double value) { return value != 1.0; });
    if (other == values.end()) continue;
    file_->refuse(format("{} entry {} is {}: weights other than 1 are not supported yet; remove {}",
                         weights_->name, begin + (other - values.begin()), *other, weights_->name));
  }
}

Csr StoredMatrix::read(Range rows, std::int64_t width) const {
  Csr read;
  read.offsets = offsets(rows);
  const std::int64_t first = read.offsets.front();
  const std::int64_t last = read.offsets.back();
  // The library converts larger integers to the maximum int32, which is out of range here.
  read.columns = columns_.read<std::int32_t>(first, last - first);
  check_columns(rows.begin, read.view(), width);
  if (weights_) check_weights(first, last);
  for (auto& offset : read.offsets) offset -= first;
  return read;
}

}  // namespace vaecf::io
