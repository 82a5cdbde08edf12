#include <vaecf/base/text.hpp>
#include <vaecf/base/version.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/file_lock.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include "io/hdf5/hdf5.hpp"

namespace vaecf::io::h5 {
namespace {

herr_t keep_innermost(unsigned depth, const H5E_error2_t* error, void* text) {
  if (depth == 0 && error->desc != nullptr) *static_cast<std::string*>(text) = error->desc;
  return 0;
}

/// Selection of rows in the file, and a memory space of the same shape.
struct Selection {
  Handle file;
  Handle memory;
};

Selection select(hid_t dataset, std::int64_t begin, std::int64_t count) {
  Handle file(H5Dget_space(dataset), "read the shape of a dataset");
  std::array<hsize_t, H5S_MAX_RANK> start{};
  std::array<hsize_t, H5S_MAX_RANK> size{};
  const int rank = check(H5Sget_simple_extent_dims(file.id(), size.data(), nullptr), "read a shape");
  start[0] = static_cast<hsize_t>(begin);
  size[0] = static_cast<hsize_t>(count);
  check(H5Sselect_hyperslab(file.id(), H5S_SELECT_SET, start.data(), nullptr, size.data(), nullptr),
        "select a range of a dataset");
  return {std::move(file), Handle(H5Screate_simple(rank, size.data(), nullptr), "describe memory")};
}

}  // namespace

namespace {

std::recursive_mutex library;
// A process forks while no other thread is in the library, whose lock a child would otherwise never get.
[[maybe_unused]] const int watched = ::pthread_atfork([] { library.lock(); }, [] { library.unlock(); },
                                                      // The child's thread is not the one that locked it.
                                                      [] { std::construct_at(&library); });

}  // namespace

std::unique_lock<std::recursive_mutex> lock_library() {
  std::unique_lock lock(library);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // error stacks may be per thread
  return lock;
}

void throw_error(std::string_view doing) {
  std::string why;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_innermost, &why);
  H5Eclear2(H5E_DEFAULT);
  throw Error(why.empty() ? format("cannot {}", doing) : format("cannot {} ({})", doing, why));
}

void Handle::reset() noexcept {
  if (id_ < 0) return;
  const auto lock = lock_library();
  H5Idec_ref(std::exchange(id_, H5I_INVALID_HID));
}

bool can_deflate() {
  const auto lock = lock_library();
  return H5Zfilter_avail(H5Z_FILTER_DEFLATE) > 0;
}

void read_rows(hid_t dataset, hid_t type, std::int64_t begin, std::int64_t count, void* out) {
  if (count == 0) return;
  const Selection rows = select(dataset, begin, count);
  check(H5Dread(dataset, type, rows.memory.id(), rows.file.id(), H5P_DEFAULT, out), "read a dataset");
}

void write_rows(hid_t dataset, hid_t type, std::int64_t begin, std::int64_t count, const void* data) {
  if (count == 0) return;
  const Selection rows = select(dataset, begin, count);
  check(H5Dwrite(dataset, type, rows.memory.id(), rows.file.id(), H5P_DEFAULT, data), "write a dataset");
}

}  // namespace vaecf::io::h5

namespace vaecf::io {
namespace {

// Maximum compression ratio of deflate.
constexpr std::uint64_t max_packing = 1032;
constexpr std::size_t max_string = std::size_t{64} << 20;
constexpr std::size_t max_list = std::size_t{1} << 20;

/// Callback that rejects links into other files.
herr_t refuse_link(const char*, const char*, const char*, const char*, unsigned*, hid_t, void*) {
  return -1;
}

/// Removes the padding of one element of a string type.
std::string strip_filling(std::string_view bytes, H5T_str_t filling) {
  if (filling == H5T_STR_NULLTERM) return std::string(bytes.substr(0, bytes.find('\0')));
  return std::string(bytes.substr(0, bytes.find_last_not_of(filling == H5T_STR_SPACEPAD ? ' ' : '\0') + 1));
}

}  // namespace

void require_file(const std::string& path, const std::string& make) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    throw InputError(format("{}: no such file; check the path, or {}", path, make));
  }
  if (!std::filesystem::is_regular_file(status)) {
    throw InputError(
        format("{}: is a folder or a device, not a regular file; choose a file, or {}", path, make));
  }
  if (::access(path.c_str(), R_OK) != 0) {
    throw InputError(format("{}: cannot be read: {}; check its permissions", path,
                            std::generic_category().message(errno)));
  }
}

Hdf5Reader::Hdf5Reader(std::string path, const std::string& make, bool beside_others)
    : path_(std::move(path)) {
  require_file(path_, make);
  as_input_error([&] {
    if (H5Fis_hdf5(path_.c_str()) <= 0) {
      throw_if_in_use(path_);
      refuse(format("is not an HDF5 file; {}", make));
    }
    links_ = h5::Handle(H5Pcreate(H5P_LINK_ACCESS), "prepare to read a file");
    h5::check(H5Pset_elink_cb(links_.id(), refuse_link, nullptr), "prepare to read a file");
    const h5::Handle access(H5Pcreate(H5P_FILE_ACCESS), "prepare to read a file");
#if H5_VERSION_GE(1, 10, 7)
    // Ranks share the file, and network file systems often do not support locks. The environment variable
    // HDF5_USE_FILE_LOCKING takes precedence.
    h5::check(H5Pset_file_locking(access.id(), false, true), "prepare to read a file");
#endif
    // HDF5 refuses to open a file twice with different settings of locks, but not by different drivers.
    if (beside_others) h5::check(H5Pset_fapl_stdio(access.id()), "prepare to read a file");
    file_ = h5::Handle(H5Fopen(path_.c_str(), H5F_ACC_RDONLY, access.id()), "open the file");
  });
}

void Hdf5Reader::refuse_damaged(const std::string& problem) const {
  throw_if_in_use(path_);
  refuse(format("{}; the file may be damaged; create or copy it again", problem));
}

void Hdf5Reader::refuse(const std::string& problem) const {
  throw InputError(format("{}: {}", path_, problem));
}

void Hdf5Reader::reject_variable_length(hid_t type, const std::string& what) const {
  const bool text = H5Tget_class(type) == H5T_STRING;
  if (H5Tget_class(type) == H5T_VLEN || (text && h5::check(H5Tis_variable_str(type), "inspect a type") > 0)) {
    refuse(format(
        "{} has variable length, which is not supported because damaged files crash the HDF5 library; store it with fixed length (in h5py: numpy.bytes_(text), or dtype 'S<n>')",
        what));
  }
}

bool Hdf5Reader::has(const std::string& path) const {
  for (auto slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    if (h5::check(H5Lexists(id(), part.c_str(), links_.id()), format("find {}", part)) == 0) return false;
    H5L_info_t info;
    h5::check(H5Lget_info(id(), part.c_str(), &info, links_.id()), format("inspect {}", part));
    if (info.type != H5L_TYPE_HARD && H5Oexists_by_name(id(), part.c_str(), links_.id()) <= 0) {
      refuse(format(
          "{} is a dangling, cyclic or external link, which is not followed; copy the data to this path",
          part));
    }
    if (slash == std::string::npos) return true;
  }
}

h5::Handle Hdf5Reader::open_object(const std::string& path) const {
  if (!has(path)) refuse(format("{} is missing", path));
  return h5::Handle(H5Oopen(id(), path.c_str(), links_.id()), format("open {}", path));
}

Hdf5Dataset Hdf5Reader::open(const std::string& path, int max_dimensions) const {
  Hdf5Dataset dataset;
  dataset.name = path;
  dataset.id = open_object(path);
  if (H5Iget_type(dataset.id.id()) != H5I_DATASET) refuse(format("{} is not a dataset", path));
  dataset.type = h5::Handle(H5Dget_type(dataset.id.id()), format("read the type of {}", path));
  reject_variable_length(dataset.type.id(), path);

  const h5::Handle space(H5Dget_space(dataset.id.id()), format("read the shape of {}", path));
  const int dimensions = H5Sget_simple_extent_ndims(space.id());
  if (H5Sget_simple_extent_type(space.id()) != H5S_SIMPLE || dimensions < 1 || dimensions > max_dimensions) {
    refuse(format("{} has {} dimensions; {} expected", path, dimensions,
                  max_dimensions == 1 ? "1 is" : "1 or 2 are"));
  }
  std::array<hsize_t, H5S_MAX_RANK> sizes{};
  h5::check(H5Sget_simple_extent_dims(space.id(), sizes.data(), nullptr),
            format("read the shape of {}", path));
  dataset.shape.assign(sizes.begin(), sizes.begin() + dimensions);
  check_storage(dataset);
  return dataset;
}

void Hdf5Reader::check_storage(Hdf5Dataset& dataset) const {
  const std::string looking = format("inspect {}", dataset.name);
  const h5::Handle creation(H5Dget_create_plist(dataset.id.id()), looking);
  if (H5Pget_layout(creation.id()) == H5D_VIRTUAL ||
      h5::check(H5Pget_external_count(creation.id()), looking) > 0) {
    refuse(format("{} is stored in another file, which is not read; copy the data into this file",
                  dataset.name));
  }
  const int filters = h5::check(H5Pget_nfilters(creation.id()), looking);
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0;
    unsigned level = 0;
    std::size_t values = 1;
    const auto filter =
        H5Pget_filter2(creation.id(), static_cast<unsigned>(i), &flags, &values, &level, 0, nullptr, nullptr);
    if (filter == H5Z_FILTER_DEFLATE) {
      if (!h5::can_deflate()) {
        refuse(format(
            "{} is compressed, and this program's HDF5 was built without zlib; create the file without compression, or build the program with another HDF5",
            dataset.name));
      }
      dataset.deflate = static_cast<int>(level);
    } else if (filter != H5Z_FILTER_SHUFFLE) {
      refuse(
          format("{} uses HDF5 filter {}; only shuffle and deflate (gzip) are supported; store it with these",
                 dataset.name, static_cast<int>(filter)));
    }
  }
  // The declared shape is not trusted: nothing is allocated unless the stored bytes can contain it.
  std::uint64_t bytes = H5Tget_size(dataset.type.id());
  bool overflow = false;
  for (const auto size : dataset.shape) {
    overflow = overflow || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes);
  }
  std::error_code error;
  const auto stored =
      std::min<std::uint64_t>(H5Dget_storage_size(dataset.id.id()), std::filesystem::file_size(path_, error));
  if (overflow || bytes > (filters > 0 ? stored * max_packing : stored)) {
    refuse(format("{} declares more values than its {} stored bytes can contain; create the file again",
                  dataset.name, stored));
  }
}

Attributes Hdf5Reader::attributes() const {
  const h5::Handle root(H5Gopen2(id(), "/", H5P_DEFAULT), "open the root");
  Attributes attributes;
  const int count = h5::check(H5Aget_num_attrs(root.id()), "count the attributes");
  for (int i = 0; i < count; ++i) {
    const h5::Handle attribute(H5Aopen_by_idx(root.id(), ".", H5_INDEX_NAME, H5_ITER_INC,
                                              static_cast<hsize_t>(i), H5P_DEFAULT, H5P_DEFAULT),
                               "open an attribute");
    read_attribute(attribute.id(), attributes);
  }
  return attributes;
}

std::string writer_of(const Attributes& attributes) {
  const auto found = attributes.find("written_by");
  const auto* text = found == attributes.end() ? nullptr : std::get_if<std::string>(&found->second);
  return text == nullptr ? "an unknown program" : excerpt(*text);
}

void Hdf5Reader::require_known(const Attributes& attributes) const {
  const auto fail = [&](const std::string& problem) {
    throw OtherFormatError(format("{}: {}; it was written by {}", path_, problem, writer_of(attributes)));
  };
  if (const auto rule = attributes.find("interaction_weights"); rule != attributes.end()) {
    const auto* name = std::get_if<std::string>(&rule->second);
    if (name == nullptr || (*name != "rating" && *name != "log1p")) {
      fail(format("its interaction weights are {}, which {} does not implement; they must be rating or log1p",
                  name == nullptr ? "not a text" : excerpt(*name), written_by()));
    }
  }
  const auto found = attributes.find("requires");
  if (found == attributes.end()) return;
  const auto* names = std::get_if<std::string>(&found->second);
  if (names != nullptr && names->empty()) return;
  fail(format("requires a program that knows {}, but {} does not",
              names == nullptr ? "more" : excerpt(*names), written_by()));
}

void Hdf5Reader::read_attribute(hid_t attribute, Attributes& to) const {
  std::string name(static_cast<std::size_t>(
                       h5::check(H5Aget_name(attribute, 0, nullptr), "read the name of an attribute")),
                   '\0');
  h5::check(H5Aget_name(attribute, name.size() + 1, name.data()), "read the name of an attribute");
  const h5::Handle type(H5Aget_type(attribute), "read the type of an attribute");
  reject_variable_length(type.id(), format("attribute {}", excerpt(name)));
  const h5::Handle space(H5Aget_space(attribute), "read the shape of an attribute");
  const auto count = h5::check(H5Sget_simple_extent_npoints(space.id()), "read the shape of an attribute");
  const bool list = H5Sget_simple_extent_ndims(space.id()) == 1;
  const H5T_class_t kind = H5Tget_class(type.id());
  const std::size_t bytes = H5Tget_size(type.id());
  const auto read = [&](hid_t as, void* out) { h5::check(H5Aread(attribute, as, out), "read an attribute"); };
  if (kind == H5T_FLOAT && list && static_cast<std::size_t>(count) <= max_list) {
    std::vector<double> numbers(static_cast<std::size_t>(count));
    if (count > 0) read(H5T_NATIVE_DOUBLE, numbers.data());
    to[name] = std::move(numbers);
  } else if (count == 1 && kind == H5T_INTEGER) {
    read(H5T_NATIVE_INT64, &to[name].emplace<std::int64_t>());
  } else if (count == 1 && kind == H5T_FLOAT) {
    read(H5T_NATIVE_DOUBLE, &to[name].emplace<double>());
  } else if (count == 1 && kind == H5T_STRING && bytes <= max_string) {
    std::string text(bytes, '\0');
    read(type.id(), text.data());
    to[name] = strip_filling(text, H5Tget_strpad(type.id()));
  }
}

IdList Hdf5Reader::ids(const std::string& path) const {
  constexpr std::int64_t piece_bytes = std::int64_t{4} << 20;
  const Hdf5Dataset dataset = open(path, 1);
  const std::int64_t count = dataset.shape[0];
  const auto width = static_cast<std::int64_t>(H5Tget_size(dataset.type.id()));
  IdList ids;
  if (dataset.kind() == H5T_INTEGER) {
    const bool wide = H5Tget_sign(dataset.type.id()) == H5T_SGN_NONE && width >= 8;
    ids.numbers.resize(static_cast<std::size_t>(count));
    h5::read_rows(dataset.id.id(), wide ? H5T_NATIVE_UINT64 : H5T_NATIVE_INT64, 0, count, ids.numbers.data());
    const auto beyond = std::ranges::find_if(ids.numbers, [&](std::int64_t id) { return wide && id < 0; });
    if (beyond != ids.numbers.end()) {
      refuse(format("{} row {}: id {} does not fit into a signed 64-bit integer", path,
                    beyond - ids.numbers.begin(), static_cast<std::uint64_t>(*beyond)));
    }
    return ids;
  }
  if (dataset.kind() != H5T_STRING || width > h5::max_id_bytes) {
    refuse(format("{} contains neither integers nor fixed-length strings of at most {} bytes", path,
                  h5::max_id_bytes));
  }
  const std::int64_t step = std::max<std::int64_t>(1, piece_bytes / width);
  std::string piece;
  for (std::int64_t begin = 0; begin < count; begin += step) {
    const std::int64_t end = std::min(count, begin + step);
    piece.resize(static_cast<std::size_t>((end - begin) * width));
    h5::read_rows(dataset.id.id(), dataset.type.id(), begin, end - begin, piece.data());
    for (std::size_t at = 0; at < piece.size(); at += static_cast<std::size_t>(width)) {
      ids.strings.push_back(strip_filling(std::string_view(piece).substr(at, static_cast<std::size_t>(width)),
                                          H5Tget_strpad(dataset.type.id())));
    }
  }
  return ids;
}

}  // namespace vaecf::io
