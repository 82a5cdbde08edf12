#include "io/hdf5/hdf5.hpp"

#include <array>
#include <string>

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

std::unique_lock<std::recursive_mutex> lock_library() {
  static std::recursive_mutex mutex;
  std::unique_lock lock(mutex);
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
