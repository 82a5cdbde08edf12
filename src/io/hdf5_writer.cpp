#include "io/hdf5_writer.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

namespace vaecf::io {
namespace {

using Target = Hdf5Writer::Target;

/// An open file of the driver below. The library hands it back as an H5FD_t*, which must be its first part.
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
  std::fill(out + got, out + size, '\0');  // past the end: what was never written is zero
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

/// Registers a file driver of HDF5 that writes to a descriptor it does not own and, once a write has failed,
/// keeps that errno and swallows all further writes. libhdf5 1.10 whose own driver meets a full disk in the
/// middle of closing keeps identifiers to freed memory and crashes at exit; behind this driver it always
/// closes cleanly, and the writer asks for the errno instead.
h5::Handle register_driver() {
  H5FD_class_t driver{};
#ifdef H5FD_CLASS_VERSION
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(300);  // any number outside the library's own range
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

}  // namespace

Hdf5Writer::Hdf5Writer(const std::string& path, hsize_t user_block) : output_(path) {
  target_.descriptor = output_.descriptor();
  write([&] {
    driver_ = register_driver();
    const h5::Handle access(H5Pcreate(H5P_FILE_ACCESS), "prepare a file");
    Target* const target = &target_;
    h5::check(H5Pset_driver(access.id(), driver_.id(), &target), "prepare a file");
    // The format of 1.8: attributes beyond 64 KiB, and still readable by every HDF5 in use.
    h5::check(H5Pset_libver_bounds(access.id(), H5F_LIBVER_V18, H5F_LIBVER_V18), "prepare a file");
    const h5::Handle creation(H5Pcreate(H5P_FILE_CREATE), "prepare a file");
    h5::check(H5Pset_userblock(creation.id(), user_block), "prepare a file");
    h5::check(H5Pset_obj_track_times(creation.id(), false), "prepare a file");
    file_ = h5::Handle(H5Fcreate(this->path().c_str(), H5F_ACC_TRUNC, creation.id(), access.id()),
                       "create the file");
  });
}

Hdf5Writer::~Hdf5Writer() {
  // What is still buffered need not be written: the file goes.
  if (target_.error == 0) target_.error = -1;
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
