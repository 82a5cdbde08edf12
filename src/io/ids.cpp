#include "io/ids.hpp"

#include "io/attributes.hpp"

#include <algorithm>
#include <limits>

namespace vaecf::io {
namespace {

constexpr std::size_t max_id_bytes = 4096;
constexpr std::size_t piece_bytes = std::size_t{4} << 20;

std::int64_t rows_per_piece(std::size_t width) {
  return static_cast<std::int64_t>(std::max<std::size_t>(1, piece_bytes / width));
}

void write_strings(hid_t file, const std::string& path, const std::vector<std::string>& strings) {
  std::size_t width = 1;
  for (const auto& text : strings) width = std::max(width, text.size());
  if (width > max_id_bytes) {
    throw InputError(
        format("{}: one of the ids is {} bytes long; at most {} are stored: check the separator "
               "and the columns of the source",
               path, width, max_id_bytes));
  }
  const h5::Handle type = string_type(width);
  const hsize_t count = strings.size();
  const h5::Handle dataset = h5::create_dataset(file, path, type.id(), {&count, 1}, 0);
  const auto total = static_cast<std::int64_t>(strings.size());
  std::vector<char> piece;
  for (std::int64_t begin = 0; begin < total; begin += rows_per_piece(width)) {
    const std::int64_t end = std::min(total, begin + rows_per_piece(width));
    piece.assign(static_cast<std::size_t>(end - begin) * width, '\0');
    for (std::int64_t i = begin; i < end; ++i) {
      std::ranges::copy(strings[i], piece.begin() + (i - begin) * static_cast<std::int64_t>(width));
    }
    h5::write_rows(dataset.id(), type.id(), begin, end - begin, piece.data());
  }
}

std::vector<std::string> read_strings(const InputFile& file, const InputDataset& dataset, Range range) {
  const std::size_t width = H5Tget_size(dataset.type.id());
  if (width > max_id_bytes) {
    file.refuse(
        format("{} holds strings of {} bytes; at most {} are read", dataset.name, width, max_id_bytes));
  }
  const auto filling = H5Tget_strpad(dataset.type.id());
  std::vector<std::string> strings;
  strings.reserve(static_cast<std::size_t>(range.size()));
  std::vector<char> piece;
  for (std::int64_t begin = range.begin; begin < range.end; begin += rows_per_piece(width)) {
    const std::int64_t count = std::min(range.end - begin, rows_per_piece(width));
    piece.resize(static_cast<std::size_t>(count) * width);
    h5::read_rows(dataset.id.id(), dataset.type.id(), begin, count, piece.data());
    for (std::int64_t i = 0; i < count; ++i) {
      strings.push_back(strip_filling({piece.data() + static_cast<std::size_t>(i) * width, width}, filling));
    }
  }
  return strings;
}

std::vector<std::int64_t> read_numbers(const InputFile& file, const InputDataset& dataset, Range range) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(range.size()));
  if (H5Tget_sign(dataset.type.id()) == H5T_SGN_NONE && H5Tget_size(dataset.type.id()) >= 8) {
    std::vector<std::uint64_t> wide(numbers.size());
    h5::read_elements<std::uint64_t>(dataset.id.id(), range.begin, wide);
    for (std::size_t i = 0; i < wide.size(); ++i) {
      if (wide[i] > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        file.refuse(format("{} row {}: id {} does not fit into 64 bits with sign; store ids as strings",
                           dataset.name, range.begin + static_cast<std::int64_t>(i), wide[i]));
      }
      numbers[i] = static_cast<std::int64_t>(wide[i]);
    }
    return numbers;
  }
  h5::read_elements<std::int64_t>(dataset.id.id(), range.begin, numbers);
  return numbers;
}

}  // namespace

void write_id_list(hid_t file, const std::string& path, const IdList& ids) {
  if (!ids.numeric()) return write_strings(file, path, ids.strings);
  const hsize_t count = ids.numbers.size();
  const h5::Handle dataset = h5::create_dataset(file, path, H5T_STD_I64LE, {&count, 1}, 0);
  h5::write_rows(dataset.id(), H5T_NATIVE_INT64, 0, ids.size(), ids.numbers.data());
}

IdList read_id_list(const InputFile& file, const InputDataset& dataset, Range range) {
  if (range.begin < 0 || range.begin > range.end || range.end > dataset.shape[0]) {
    file.refuse(format("rows {} to {} asked of {}, which has {}", range.begin, range.end, dataset.name,
                       dataset.shape[0]));
  }
  IdList ids;
  if (dataset.kind() == H5T_STRING) {
    ids.strings = read_strings(file, dataset, range);
  } else if (dataset.kind() == H5T_INTEGER) {
    ids.numbers = read_numbers(file, dataset, range);
  } else {
    file.refuse(format("{} holds neither integers nor strings of fixed length", dataset.name));
  }
  return ids;
}

}  // namespace vaecf::io
