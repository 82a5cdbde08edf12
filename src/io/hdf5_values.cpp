#include "io/hdf5_values.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

namespace vaecf::io {
namespace {

constexpr std::size_t max_string = std::size_t{64} << 20;
constexpr std::size_t max_list = std::size_t{1} << 20;

std::string name_of(hid_t attribute) {
  const auto size = h5::check(H5Aget_name(attribute, 0, nullptr), "read the name of an attribute");
  std::string name(static_cast<std::size_t>(size) + 1, '\0');
  h5::check(H5Aget_name(attribute, name.size(), name.data()), "read the name of an attribute");
  name.pop_back();
  return name;
}

std::optional<Attribute> read_attribute(hid_t attribute, const std::string& path, const std::string& name) {
  const h5::Handle type(H5Aget_type(attribute), "read the type of an attribute");
  refuse_variable_length(type.id(), path, format("attribute {}", name));
  const h5::Handle space(H5Aget_space(attribute), "read the shape of an attribute");
  const H5T_class_t kind = H5Tget_class(type.id());
  const auto count = static_cast<std::uint64_t>(
      h5::check(H5Sget_simple_extent_npoints(space.id()), "read the shape of an attribute"));
  const auto require_at_most = [&](std::uint64_t most, std::uint64_t claimed, const char* what) {
    if (claimed <= most) return;
    throw InputError(format("{}: attribute {} claims {} {}; an attribute holds at most {}", path, name,
                            claimed, what, most));
  };
  const auto read = [&](hid_t as, void* out) { h5::check(H5Aread(attribute, as, out), "read an attribute"); };

  if (kind == H5T_FLOAT && H5Sget_simple_extent_ndims(space.id()) == 1) {
    require_at_most(max_list, count, "numbers");
    std::vector<double> list(count);
    if (count > 0) read(H5T_NATIVE_DOUBLE, list.data());
    return list;
  }
  if (count != 1) return std::nullopt;
  if (kind == H5T_INTEGER) {
    std::int64_t integer = 0;
    read(H5T_NATIVE_INT64, &integer);
    return integer;
  }
  if (kind == H5T_FLOAT) {
    double number = 0.0;
    read(H5T_NATIVE_DOUBLE, &number);
    return number;
  }
  if (kind != H5T_STRING) return std::nullopt;
  require_at_most(max_string, H5Tget_size(type.id()), "bytes");
  std::vector<char> text(H5Tget_size(type.id()));
  read(type.id(), text.data());
  return strip_filling({text.data(), text.size()}, H5Tget_strpad(type.id()));
}

void write_attribute(hid_t root, const std::string& name, hid_t type, const void* data,
                     const h5::Handle& space) {
  const h5::Handle attribute(H5Acreate2(root, name.c_str(), type, space.id(), H5P_DEFAULT, H5P_DEFAULT),
                             format("create attribute {}", name));
  if (data == nullptr) return;  // an empty list: the library wants no write then
  h5::check(H5Awrite(attribute.id(), type, data), format("write attribute {}", name));
}

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

std::vector<std::string> read_strings(const Hdf5Reader& file, const Hdf5Dataset& dataset, Range range) {
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

std::vector<std::int64_t> read_numbers(const Hdf5Reader& file, const Hdf5Dataset& dataset, Range range) {
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

h5::Handle string_type(std::size_t size) {
  h5::Handle type(H5Tcopy(H5T_C_S1), "make a string type");
  h5::check(H5Tset_size(type.id(), std::max<std::size_t>(size, 1)), "make a string type");
  h5::check(H5Tset_strpad(type.id(), H5T_STR_NULLPAD), "make a string type");
  h5::check(H5Tset_cset(type.id(), H5T_CSET_UTF8), "make a string type");
  return type;
}

std::string strip_filling(std::string_view bytes, H5T_str_t filling) {
  if (filling == H5T_STR_NULLTERM) return std::string(bytes.substr(0, bytes.find('\0')));
  const auto last = bytes.find_last_not_of(filling == H5T_STR_SPACEPAD ? ' ' : '\0');
  return std::string(last == std::string_view::npos ? std::string_view() : bytes.substr(0, last + 1));
}

void refuse_variable_length(hid_t type, const std::string& path, std::string_view what) {
  if (H5Tget_class(type) == H5T_VLEN ||
      (H5Tget_class(type) == H5T_STRING && h5::check(H5Tis_variable_str(type), "inspect a type") > 0)) {
    throw InputError(
        format("{}: {} is of variable length, which is not read because damaged ones crash the HDF5 library; "
               "store it with fixed length (in h5py: numpy.bytes_(text), or dtype 'S<n>')",
               path, what));
  }
}

void write_attributes(hid_t file, const Attributes& attributes) {
  const h5::Handle root(H5Gopen2(file, "/", H5P_DEFAULT), "open the root");
  const h5::Handle scalar(H5Screate(H5S_SCALAR), "prepare an attribute");
  for (const auto& [name, value] : attributes) {
    if (const auto* integer = std::get_if<std::int64_t>(&value)) {
      write_attribute(root.id(), name, H5T_NATIVE_INT64, integer, scalar);
    } else if (const auto* number = std::get_if<double>(&value)) {
      write_attribute(root.id(), name, H5T_NATIVE_DOUBLE, number, scalar);
    } else if (const auto* list = std::get_if<std::vector<double>>(&value)) {
      const hsize_t size = list->size();
      const h5::Handle line(H5Screate_simple(1, &size, nullptr), "prepare an attribute");
      write_attribute(root.id(), name, H5T_NATIVE_DOUBLE, list->data(), line);
    } else {
      const auto& text = std::get<std::string>(value);
      write_attribute(root.id(), name, string_type(text.size()).id(), text.c_str(), scalar);
    }
  }
}

Attributes read_attributes(hid_t file, const std::string& path) {
  const h5::Handle root(H5Gopen2(file, "/", H5P_DEFAULT), "open the root");
  Attributes attributes;
  const int count = h5::check(H5Aget_num_attrs(root.id()), "count the attributes");
  for (int i = 0; i < count; ++i) {
    const h5::Handle attribute(H5Aopen_by_idx(root.id(), ".", H5_INDEX_NAME, H5_ITER_INC,
                                              static_cast<hsize_t>(i), H5P_DEFAULT, H5P_DEFAULT),
                               "open an attribute");
    const std::string name = name_of(attribute.id());
    if (auto value = read_attribute(attribute.id(), path, name)) attributes.emplace(name, std::move(*value));
  }
  return attributes;
}

void write_id_list(hid_t file, const std::string& path, const IdList& ids) {
  if (!ids.numeric()) return write_strings(file, path, ids.strings);
  const hsize_t count = ids.numbers.size();
  const h5::Handle dataset = h5::create_dataset(file, path, H5T_STD_I64LE, {&count, 1}, 0);
  h5::write_rows(dataset.id(), H5T_NATIVE_INT64, 0, ids.size(), ids.numbers.data());
}

IdList read_id_list(const Hdf5Reader& file, const Hdf5Dataset& dataset, Range range) {
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
