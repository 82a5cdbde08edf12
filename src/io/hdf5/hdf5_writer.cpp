#include <vaecf/base/version.hpp>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "io/hdf5/hdf5.hpp"

namespace vaecf::io {
namespace {

using Target = Hdf5Writer::Target;

/// State of an open file of the driver below. The library passes it as an H5FD_t*, which must be its first
/// member.
struct Stream {
  H5FD_t base{};
  Target* target = nullptr;
  haddr_t allocated = 0;
  haddr_t end = 0;
};

Stream& stream(H5FD_t* file) {
  return *reinterpret_cast<Stream*>(file);
}
const Stream& stream(const H5FD_t* file) {
  return *reinterpret_cast<const Stream*>(file);
}

H5FD_t* open_stream(const char*, unsigned, hid_t access, haddr_t) {
  auto* opened = new (std::nothrow) Stream;
  if (opened == nullptr) return nullptr;
  std::memcpy(&opened->target, H5Pget_driver_info(access), sizeof opened->target);
  return &opened->base;
}

herr_t read_stream(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, size_t size, void* buffer) {
  auto* const out = static_cast<char*>(buffer);
  const ssize_t got = read_at(stream(file).target->descriptor, out, size, static_cast<off_t>(address));
  if (got < 0) return -1;
  std::fill(out + got, out + size, '\0');  // bytes beyond the end of the file are zero
  return 0;
}

herr_t write_stream(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, size_t size, const void* buffer) {
  Stream& self = stream(file);
  Target& target = *self.target;
  const std::string_view bytes(static_cast<const char*>(buffer), size);
  if (target.error == 0) target.error = write_at(target.descriptor, bytes, static_cast<off_t>(address));
  self.end = std::max(self.end, address + size);
  return 0;
}

herr_t truncate_stream(H5FD_t* file, hid_t, hbool_t) {
  Stream& self = stream(file);
  Target& target = *self.target;
  if (self.end != self.allocated && target.error == 0 &&
      ::ftruncate(target.descriptor, static_cast<off_t>(self.allocated)) != 0) {
    target.error = errno;
  }
  self.end = self.allocated;
  return 0;
}

/// Registers an HDF5 file driver that writes to a descriptor that it does not own. After the first failed
/// write it keeps the errno and ignores all further writes. If libhdf5 1.10 with its default driver meets a
/// full disk while closing, it keeps identifiers to freed memory and crashes at exit. With this driver
/// closing always succeeds, and the writer checks the errno.
h5::Handle register_driver() {
  H5FD_class_t driver{};
#ifdef H5FD_CLASS_VERSION
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(300);  // any value outside the library's own range
#endif
  driver.name = "vaecf_writer";
  driver.maxaddr = static_cast<haddr_t>(std::numeric_limits<off_t>::max());
  driver.fc_degree = H5F_CLOSE_WEAK;
  driver.fapl_size = sizeof(Target*);
  driver.open = open_stream;
  driver.close = [](H5FD_t* file) -> herr_t {
    delete &stream(file);
    return 0;
  };
  driver.query = [](const H5FD_t*, unsigned long* flags) -> herr_t {
    *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
             H5FD_FEAT_AGGREGATE_SMALLDATA;
    return 0;
  };
  driver.get_eoa = [](const H5FD_t* file, H5FD_mem_t) { return stream(file).allocated; };
  driver.set_eoa = [](H5FD_t* file, H5FD_mem_t, haddr_t address) -> herr_t {
    stream(file).allocated = address;
    return 0;
  };
  driver.get_eof = [](const H5FD_t* file, H5FD_mem_t) { return stream(file).end; };
  driver.read = read_stream;
  driver.write = write_stream;
  driver.truncate = truncate_stream;
  const H5FD_mem_t kinds[H5FD_MEM_NTYPES] = H5FD_FLMAP_DICHOTOMY;
  std::copy(std::begin(kinds), std::end(kinds), std::begin(driver.fl_map));
  return h5::Handle(H5FDregister(&driver), "register a file driver");
}

/// Returns the type of a zero-padded string of `size` bytes.
h5::Handle string_type(std::size_t size) {
  h5::Handle type(H5Tcopy(H5T_C_S1), "create a string type");
  h5::check(H5Tset_size(type.id(), std::max<std::size_t>(size, 1)), "create a string type");
  h5::check(H5Tset_strpad(type.id(), H5T_STR_NULLPAD), "create a string type");
  h5::check(H5Tset_cset(type.id(), H5T_CSET_UTF8), "create a string type");
  return type;
}

void write_attribute(hid_t root, const std::string& name, hid_t type, const void* data,
                     const h5::Handle& space) {
  const h5::Handle attribute(H5Acreate2(root, name.c_str(), type, space.id(), H5P_DEFAULT, H5P_DEFAULT),
                             format("create attribute {}", name));
  if (data == nullptr) return;  // the library accepts no write of an empty list
  h5::check(H5Awrite(attribute.id(), type, data), format("write attribute {}", name));
}

}  // namespace

Hdf5Writer::Hdf5Writer(const std::string& path, hsize_t user_block) : output_(path) {
  target_.descriptor = output_.descriptor();
  write([&] {
    driver_ = register_driver();
    const h5::Handle access(H5Pcreate(H5P_FILE_ACCESS), "prepare a file");
    Target* const target = &target_;
    h5::check(H5Pset_driver(access.id(), driver_.id(), &target), "prepare a file");
    // The file format of HDF5 1.8 supports attributes larger than 64 KiB and is readable by all current HDF5
    // versions.
    h5::check(H5Pset_libver_bounds(access.id(), H5F_LIBVER_V18, H5F_LIBVER_V18), "prepare a file");
    const h5::Handle creation(H5Pcreate(H5P_FILE_CREATE), "prepare a file");
    h5::check(H5Pset_userblock(creation.id(), user_block), "prepare a file");
    h5::check(H5Pset_obj_track_times(creation.id(), false), "prepare a file");
    file_ = h5::Handle(H5Fcreate(this->path().c_str(), H5F_ACC_EXCL, creation.id(), access.id()),
                       "create the file");
  });
}

Hdf5Writer::~Hdf5Writer() {
  // Marks the target as failed to skip buffered writes: the temporary file is removed.
  if (target_.error == 0) target_.error = -1;
}

/// Creates the missing parent HDF5 groups of `path`, without modification times, so that equal content gives
/// an identical file.
void Hdf5Writer::make_hdf5_groups(const std::string& path) {
  const h5::Handle creation(H5Pcreate(H5P_GROUP_CREATE), "prepare an HDF5 group");
  h5::check(H5Pset_obj_track_times(creation.id(), false), "prepare an HDF5 group");
  for (auto slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    const std::string parent = path.substr(0, slash);
    if (h5::check(H5Lexists(id(), parent.c_str(), H5P_DEFAULT), "find an HDF5 group") > 0) continue;
    const h5::Handle made(H5Gcreate2(id(), parent.c_str(), H5P_DEFAULT, creation.id(), H5P_DEFAULT),
                          format("create {}", parent));
  }
}

h5::Handle Hdf5Writer::create(const std::string& path, hid_t type, std::span<const hsize_t> shape,
                              hsize_t chunk, int deflate) {
  h5::Handle dataset;
  write([&] {
    make_hdf5_groups(path);
    const h5::Handle creation(H5Pcreate(H5P_DATASET_CREATE), "prepare a dataset");
    h5::check(H5Pset_obj_track_times(creation.id(), false), "prepare a dataset");
    if (chunk > 0) h5::check(H5Pset_chunk(creation.id(), 1, &chunk), "prepare a dataset");
    if (deflate > 0) {
      h5::check(H5Pset_shuffle(creation.id()), "prepare a dataset");
      h5::check(H5Pset_deflate(creation.id(), static_cast<unsigned>(deflate)), "prepare a dataset");
    }
    const hsize_t unlimited = H5S_UNLIMITED;
    const h5::Handle space(
        H5Screate_simple(static_cast<int>(shape.size()), shape.data(), chunk > 0 ? &unlimited : nullptr),
        "prepare a dataset");
    dataset =
        h5::Handle(H5Dcreate2(id(), path.c_str(), type, space.id(), H5P_DEFAULT, creation.id(), H5P_DEFAULT),
                   format("create {}", path));
  });
  return dataset;
}

void Hdf5Writer::link(const std::string& path, const std::string& target) {
  write([&] {
    make_hdf5_groups(path);
    h5::check(H5Lcreate_soft(target.c_str(), id(), path.c_str(), H5P_DEFAULT, H5P_DEFAULT),
              format("create the link {}", path));
  });
}

void Hdf5Writer::write_ids(const std::string& path, const IdList& ids) {
  if (ids.numeric()) return write_array(path, std::span(ids.numbers));
  const auto count = static_cast<hsize_t>(ids.size());
  std::size_t width = 1;
  for (const auto& text : ids.strings) width = std::max(width, text.size());
  if (width > static_cast<std::size_t>(h5::max_id_bytes)) {
    throw InputError(format(
        "{}: an id is {} bytes long, but must be at most {}; check the separator and the columns of the source",
        path, width, h5::max_id_bytes));
  }
  constexpr std::size_t piece_bytes = std::size_t{4} << 20;
  write([&] {
    const h5::Handle type = string_type(width);
    const h5::Handle dataset = create(path, type.id(), {&count, 1});
    std::string piece;
    std::int64_t written = 0;
    for (std::int64_t i = 0; i < ids.size(); ++i) {
      const std::string& text = ids.strings[static_cast<std::size_t>(i)];
      piece.append(text).append(width - text.size(), '\0');
      if (piece.size() < piece_bytes && i + 1 < ids.size()) continue;
      h5::write_rows(dataset.id(), type.id(), written, i + 1 - written, piece.data());
      written = i + 1;
      piece.clear();
    }
  });
}

void Hdf5Writer::write_attributes(const Attributes& given) {
  Attributes attributes = given;
  attributes["written_by"] = written_by();
  write([&] {
    const h5::Handle root(H5Gopen2(id(), "/", H5P_DEFAULT), "open the root");
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
  });
}

void Hdf5Writer::finish() {
  write([&] {
    h5::check(H5Fflush(file_.id(), H5F_SCOPE_LOCAL), "write the file");
    file_.reset();
  });
}

void Hdf5Writer::throw_if_disk_failed() const {
  if (target_.error != 0) throw_write_error(path(), target_.error);
}

}  // namespace vaecf::io
