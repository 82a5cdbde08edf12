#include "io/dataset/stored_matrix.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/text.hpp>

#include <algorithm>
#include <cmath>

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
  if (file.has(name + "/data")) data_ = open_values(name + "/data");
  if (!file.has(name + "/interaction_weights")) return;
  if (!may_have_weights(name)) {
    file.refuse(format(
        "/{0} has weights: only train and both fold_in may have; remove /{0}/interaction_weights", name));
  }
  weights_ = open_values(name + "/interaction_weights");
}

Hdf5Dataset StoredMatrix::open_values(const std::string& name) const {
  Hdf5Dataset values = file_->open(name, 1);
  if (values.kind() != H5T_FLOAT && values.kind() != H5T_INTEGER)
    file_->refuse(format("{} does not contain numbers", values.name));
  if (values.shape != columns_.shape) {
    file_->refuse(
        format("{} has {} entries, but {} has {}", values.name, values.shape[0], columns_.name, entries()));
  }
  return values;
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

void StoredMatrix::check_data(std::int64_t begin, std::int64_t end) const {
  constexpr std::int64_t piece = std::int64_t{1} << 20;
  for (; begin < end; begin += piece) {
    const auto values = data_->read<double>(begin, std::min(piece, end - begin));
    const auto other = std::ranges::find_if(values, [](double value) { return value != 1.0; });
    if (other == values.end()) continue;
    file_->refuse(format(
        "{} entry {} is {}, but must be 1: interaction weights are stored as `interaction_weights`, not as `data`",
        data_->name, begin + (other - values.begin()), *other));
  }
}

std::vector<float> StoredMatrix::read_weights(std::int64_t first_row,
                                              std::span<const std::int64_t> offsets) const {
  std::vector<float> weights = weights_->read<float>(offsets.front(), offsets.back() - offsets.front());
  for (std::size_t r = 0; r + 1 < offsets.size(); ++r) {
    for (std::int64_t k = offsets[r]; k < offsets[r + 1]; ++k) {
      const float weight = weights[static_cast<std::size_t>(k - offsets.front())];
      if (weight > 0.0F && std::isfinite(weight)) continue;
      file_->refuse(format("{} row {}: weight {} must be finite and above 0", weights_->name,
                           first_row + static_cast<std::int64_t>(r), weight));
    }
  }
  return weights;
}

Csr StoredMatrix::read(Range rows, std::int64_t width) const {
  Csr read;
  read.offsets = offsets(rows);
  const std::int64_t first = read.offsets.front();
  const std::int64_t last = read.offsets.back();
  // The library converts larger integers to the maximum int32, which is out of range here.
  read.columns = columns_.read<std::int32_t>(first, last - first);
  check_columns(rows.begin, read.view(), width);
  if (data_) check_data(first, last);
  if (weights_) read.values = read_weights(rows.begin, read.offsets);
  for (auto& offset : read.offsets) offset -= first;
  return read;
}

}  // namespace vaecf::io
