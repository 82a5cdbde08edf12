#include "io/hdf5_reader.hpp"

#include "io/hdf5_values.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <system_error>

namespace vaecf::io {
namespace {

// Deflate packs at most 1032 to 1.
constexpr std::uint64_t max_packing = 1032;

/// Called for a link into another file: it is not followed.
herr_t refuse_link(const char*, const char*, const char*, const char*, unsigned*, hid_t, void*) {
  return -1;
}

}  // namespace

void require_file(const std::string& path, const std::string& make) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    throw InputError(format("{}: no such file; check the path, or {}", path, make));
  }
  if (std::filesystem::is_directory(status)) {
    throw InputError(format("{}: is a folder, not a file; name a file in it, or {}", path, make));
  }
  if (!std::filesystem::is_regular_file(status)) throw InputError(format("{}: is not a regular file", path));
  if (::access(path.c_str(), R_OK) != 0) {
    throw InputError(format("{}: cannot be read: {}; check its permissions", path,
                            std::generic_category().message(errno)));
  }
  if (std::filesystem::file_size(path, error) == 0) {
    throw InputError(format("{}: is empty; {}", path, make));
  }
}

int deflate_level(const Hdf5Dataset& dataset) {
  const h5::Handle creation(H5Dget_create_plist(dataset.id.id()), format("look at {}", dataset.name));
  const int filters = h5::check(H5Pget_nfilters(creation.id()), format("look at {}", dataset.name));
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0;
    unsigned level = 0;
    std::size_t values = 1;
    const auto filter =
        H5Pget_filter2(creation.id(), static_cast<unsigned>(i), &flags, &values, &level, 0, nullptr, nullptr);
    if (filter == H5Z_FILTER_DEFLATE) return static_cast<int>(level);
  }
  return 0;
}

Hdf5Reader::Hdf5Reader(std::string path, const std::string& make) : path_(std::move(path)) {
  require_file(path_, make);
  const h5::LibraryLock lock;
  if (H5Fis_hdf5(path_.c_str()) <= 0) {
    throw InputError(format("{}: is not an HDF5 file; {}", path_, make));
  }
  links_ = h5::Handle(H5Pcreate(H5P_LINK_ACCESS), "prepare to read a file");
  h5::check(H5Pset_elink_cb(links_.id(), refuse_link, nullptr), "prepare to read a file");
  const h5::Handle access(H5Pcreate(H5P_FILE_ACCESS), "prepare to read a file");
#if H5_VERSION_GE(1, 10, 7)
  // Readers share the file, and network file systems often have no locks.
  h5::check(H5Pset_file_locking(access.id(), false, true), "prepare to read a file");
#endif
  try {
    file_ = h5::Handle(H5Fopen(path_.c_str(), H5F_ACC_RDONLY, access.id()), "open the file");
  } catch (const h5::Failure& failure) {
    const bool cut = std::string_view(failure.what()).find("truncated") != std::string_view::npos;
    throw InputError(format("{}: {} ({}); copy it again, or {}", path_,
                            cut ? "was cut short" : "is a damaged HDF5 file", failure.what(), make));
  }
}

void Hdf5Reader::refuse(const std::string& problem) const {
  throw InputError(format("{}: {}", path_, problem));
}

bool Hdf5Reader::has(const std::string& path) const {
  for (auto slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    if (h5::check(H5Lexists(id(), part.c_str(), links_.id()), format("look for {}", part)) == 0) return false;
    H5L_info_t info;
    h5::check(H5Lget_info(id(), part.c_str(), &info, links_.id()), format("look at {}", part));
    if (info.type != H5L_TYPE_HARD && H5Oexists_by_name(id(), part.c_str(), links_.id()) <= 0) {
      refuse(
          format("{} is a link that leads nowhere, in circles or into another file, which is not followed; "
                 "copy the data to its place",
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
  refuse_variable_length(dataset.type.id(), path_, path);

  const h5::Handle space(H5Dget_space(dataset.id.id()), format("read the shape of {}", path));
  const int dimensions = H5Sget_simple_extent_ndims(space.id());
  if (H5Sget_simple_extent_type(space.id()) != H5S_SIMPLE || dimensions < 1 || dimensions > max_dimensions) {
    refuse(format("{} has {} dimensions; {} expected", path, dimensions,
                  max_dimensions == 1 ? "1 is" : "1 or 2 are"));
  }
  std::array<hsize_t, H5S_MAX_RANK> sizes{};
  h5::check(H5Sget_simple_extent_dims(space.id(), sizes.data(), nullptr),
            format("read the shape of {}", path));
  for (int d = 0; d < dimensions; ++d) {
    if (sizes[d] > static_cast<hsize_t>(std::numeric_limits<std::int64_t>::max())) {
      refuse(format("{} claims a size of {}", path, sizes[d]));
    }
    dataset.shape.push_back(static_cast<std::int64_t>(sizes[d]));
  }
  check_storage(dataset);
  return dataset;
}

void Hdf5Reader::check_storage(const Hdf5Dataset& dataset) const {
  const h5::Handle creation(H5Dget_create_plist(dataset.id.id()), format("look at {}", dataset.name));
  if (H5Pget_layout(creation.id()) == H5D_VIRTUAL ||
      h5::check(H5Pget_external_count(creation.id()), format("look at {}", dataset.name)) > 0) {
    refuse(
        format("{} lies in another file, which is not followed; copy the data into this one", dataset.name));
  }
  const int filters = h5::check(H5Pget_nfilters(creation.id()), format("look at {}", dataset.name));
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0;
    std::size_t values = 0;
    const auto filter = H5Pget_filter2(creation.id(), static_cast<unsigned>(i), &flags, &values, nullptr, 0,
                                       nullptr, nullptr);
    if (filter != H5Z_FILTER_SHUFFLE && filter != H5Z_FILTER_DEFLATE) {
      refuse(format("{} uses HDF5 filter {}; only shuffle and deflate (gzip) are read: store it with those",
                    dataset.name, static_cast<int>(filter)));
    }
  }
  // A shape is a claim: nobody allocates for it before the file's bytes make it possible.
  std::uint64_t bytes = H5Tget_size(dataset.type.id());
  bool overflow = false;
  for (const auto size : dataset.shape) {
    overflow = overflow || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes);
  }
  std::error_code error;
  const auto stored =
      std::min<std::uint64_t>(H5Dget_storage_size(dataset.id.id()), std::filesystem::file_size(path_, error));
  const std::uint64_t limit = filters > 0 ? stored * max_packing : stored;
  if (overflow || bytes > limit) {
    refuse(format("{} claims more values than the {} bytes stored for it can hold; make the file again",
                  dataset.name, stored));
  }
}

}  // namespace vaecf::io
