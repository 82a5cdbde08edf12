#include "io/hdf5.hpp"

#include <array>

namespace vaecf::io::h5 {
namespace {

herr_t keep_innermost(unsigned depth, const H5E_error2_t* error, void* text) {
  if (depth == 0 && error->desc != nullptr) *static_cast<std::string*>(text) = error->desc;
  return 0;
}

/// The rows in the file, and a memory space of the same shape.
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

static std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

LibraryLock::LibraryLock() : lock_(library_mutex()) {
  H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

LibraryLock::~LibraryLock() {
  H5Eset_auto2(H5E_DEFAULT, function_, data_);
}

void throw_failure(std::string_view doing) {
  std::string why;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_innermost, &why);
  H5Eclear2(H5E_DEFAULT);
  throw Failure(why.empty() ? format("cannot {}", doing) : format("cannot {} ({})", doing, why));
}

void Handle::reset() noexcept {
  if (id_ < 0) return;
  const LibraryLock lock;
  H5Idec_ref(std::exchange(id_, H5I_INVALID_HID));
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

/// All groups on the way to `path`, without the times that the library would store in them: the same content
/// is the same file whenever it is written.
static void make_groups(hid_t file, const std::string& path) {
  const Handle creation(H5Pcreate(H5P_GROUP_CREATE), "prepare a group");
  check(H5Pset_obj_track_times(creation.id(), false), "prepare a group");
  for (auto slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    const std::string group = path.substr(0, slash);
    if (check(H5Lexists(file, group.c_str(), H5P_DEFAULT), "look for a group") > 0) continue;
    const Handle made(H5Gcreate2(file, group.c_str(), H5P_DEFAULT, creation.id(), H5P_DEFAULT),
                      format("create {}", group));
  }
}

Handle create_dataset(hid_t file, const std::string& path, hid_t type, std::span<const hsize_t> shape,
                      hsize_t chunk, int deflate) {
  make_groups(file, path);
  const Handle creation(H5Pcreate(H5P_DATASET_CREATE), "prepare a dataset");
  check(H5Pset_obj_track_times(creation.id(), false), "prepare a dataset");
  const hsize_t unlimited = H5S_UNLIMITED;
  if (chunk > 0) check(H5Pset_chunk(creation.id(), 1, &chunk), "prepare a dataset");
  if (deflate > 0) {
    check(H5Pset_shuffle(creation.id()), "prepare a dataset");
    check(H5Pset_deflate(creation.id(), static_cast<unsigned>(deflate)), "prepare a dataset");
  }
  const Handle space(
      H5Screate_simple(static_cast<int>(shape.size()), shape.data(), chunk > 0 ? &unlimited : nullptr),
      "prepare a dataset");
  return Handle(H5Dcreate2(file, path.c_str(), type, space.id(), H5P_DEFAULT, creation.id(), H5P_DEFAULT),
                format("create {}", path));
}

void create_link(hid_t file, const std::string& path, const std::string& target) {
  make_groups(file, path);
  check(H5Lcreate_soft(target.c_str(), file, path.c_str(), H5P_DEFAULT, H5P_DEFAULT),
        format("create the link {}", path));
}

}  // namespace vaecf::io::h5
