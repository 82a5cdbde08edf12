#include "io/attributes.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace vaecf::io {
namespace {

constexpr std::size_t max_string = std::size_t{64} << 20;
constexpr hsize_t max_list = hsize_t{1} << 20;

std::string name_of(hid_t attribute) {
  const auto size = h5::check(H5Aget_name(attribute, 0, nullptr), "read the name of an attribute");
  std::string name(static_cast<std::size_t>(size) + 1, '\0');
  h5::check(H5Aget_name(attribute, name.size(), name.data()), "read the name of an attribute");
  name.pop_back();
  return name;
}

template <class T>
T read_number(hid_t attribute) {
  T value{};
  h5::check(H5Aread(attribute, h5::memory_type<T>(), &value), "read an attribute");
  return value;
}

std::string read_string(hid_t attribute, hid_t type) {
  std::vector<char> bytes(H5Tget_size(type));
  h5::check(H5Aread(attribute, type, bytes.data()), "read an attribute");
  return strip_filling({bytes.data(), bytes.size()}, H5Tget_strpad(type));
}

std::vector<double> read_list(hid_t attribute, hid_t space, const std::string& path,
                              const std::string& name) {
  hsize_t size = 0;
  h5::check(H5Sget_simple_extent_dims(space, &size, nullptr), "read the shape of an attribute");
  if (size > max_list) {
    throw InputError(format("{}: attribute {} claims {} numbers; an attribute holds at most {}", path, name,
                            size, max_list));
  }
  std::vector<double> values(static_cast<std::size_t>(size));
  if (size > 0) h5::check(H5Aread(attribute, H5T_NATIVE_DOUBLE, values.data()), "read an attribute");
  return values;
}

std::optional<Attribute> read_attribute(hid_t attribute, const std::string& path, const std::string& name) {
  const h5::Handle type(H5Aget_type(attribute), "read the type of an attribute");
  refuse_variable_length(type.id(), path, format("attribute {}", name));
  const h5::Handle space(H5Aget_space(attribute), "read the shape of an attribute");
  if (H5Sget_simple_extent_type(space.id()) == H5S_SIMPLE && H5Tget_class(type.id()) == H5T_FLOAT &&
      H5Sget_simple_extent_ndims(space.id()) == 1) {
    return read_list(attribute, space.id(), path, name);
  }
  if (H5Sget_simple_extent_npoints(space.id()) != 1) return std::nullopt;
  switch (H5Tget_class(type.id())) {
    case H5T_INTEGER:
      return read_number<std::int64_t>(attribute);
    case H5T_FLOAT:
      return read_number<double>(attribute);
    case H5T_STRING:
      if (H5Tget_size(type.id()) > max_string) {
        throw InputError(format("{}: attribute {} claims {} bytes; an attribute holds at most {}", path, name,
                                H5Tget_size(type.id()), max_string));
      }
      return read_string(attribute, type.id());
    default:
      return std::nullopt;
  }
}

void write_attribute(hid_t root, const std::string& name, hid_t type, const void* data,
                     const h5::Handle& space) {
  const h5::Handle attribute(H5Acreate2(root, name.c_str(), type, space.id(), H5P_DEFAULT, H5P_DEFAULT),
                             format("create attribute {}", name));
  if (data == nullptr) return;  // an empty list: the library wants no write then
  h5::check(H5Awrite(attribute.id(), type, data), format("write attribute {}", name));
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

}  // namespace vaecf::io
