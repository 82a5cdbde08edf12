#include "io/staged_driver.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <limits>

namespace vaecf::io {
namespace {

// The library hands this back as an H5FD_t*, which must be its first part.
struct Stream {
  H5FD_t base{};
  StagedTarget* target = nullptr;
  haddr_t end_of_allocation = 0;
  haddr_t end_of_file = 0;
};

Stream& stream(H5FD_t* file) {
  return *reinterpret_cast<Stream*>(file);
}
const Stream& stream(const H5FD_t* file) {
  return *reinterpret_cast<const Stream*>(file);
}

H5FD_t* open_stream(const char*, unsigned, hid_t access, haddr_t) {
  const void* info = H5Pget_driver_info(access);
  if (info == nullptr) return nullptr;
  auto* opened = new (std::nothrow) Stream;
  if (opened == nullptr) return nullptr;
  std::memcpy(&opened->target, info, sizeof opened->target);
  return &opened->base;
}

herr_t close_stream(H5FD_t* file) {
  delete &stream(file);
  return 0;
}

int compare(const H5FD_t* a, const H5FD_t* b) {
  if (a == b) return 0;
  return std::less<const H5FD_t*>()(a, b) ? -1 : 1;
}

herr_t query(const H5FD_t*, unsigned long* flags) {
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
           H5FD_FEAT_AGGREGATE_SMALLDATA;
  return 0;
}

haddr_t get_end_of_allocation(const H5FD_t* file, H5FD_mem_t) {
  return stream(file).end_of_allocation;
}

herr_t set_end_of_allocation(H5FD_t* file, H5FD_mem_t, haddr_t address) {
  stream(file).end_of_allocation = address;
  return 0;
}

haddr_t get_end_of_file(const H5FD_t* file, H5FD_mem_t) {
  return stream(file).end_of_file;
}

herr_t read_bytes(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, size_t size, void* buffer) {
  auto* out = static_cast<char*>(buffer);
  while (size > 0) {
    const ssize_t got = ::pread(stream(file).target->descriptor, out, size, static_cast<off_t>(address));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) {  // past the end: what was never written is zero
      std::memset(out, 0, size);
      return 0;
    }
    out += got;
    address += static_cast<haddr_t>(got);
    size -= static_cast<size_t>(got);
  }
  return 0;
}

herr_t write_bytes(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, size_t size, const void* buffer) {
  Stream& self = stream(file);
  const auto* data = static_cast<const char*>(buffer);
  while (size > 0 && self.target->error == 0) {
    const ssize_t put = ::pwrite(self.target->descriptor, data, size, static_cast<off_t>(address));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      self.target->error = put < 0 ? errno : EIO;
      break;
    }
    data += put;
    address += static_cast<haddr_t>(put);
    size -= static_cast<size_t>(put);
  }
  self.end_of_file = std::max(self.end_of_file, address + size);
  return 0;
}

herr_t truncate_file(H5FD_t* file, hid_t, hbool_t) {
  Stream& self = stream(file);
  if (self.end_of_file == self.end_of_allocation) return 0;
  if (self.target->error == 0 &&
      ::ftruncate(self.target->descriptor, static_cast<off_t>(self.end_of_allocation)) != 0) {
    self.target->error = errno;
  }
  self.end_of_file = self.end_of_allocation;
  return 0;
}

}  // namespace

h5::Handle register_staged_driver() {
  H5FD_class_t driver{};
#ifdef H5FD_CLASS_VERSION
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(300);  // any number outside the library's own range
#endif
  driver.name = "vaecf_staged";
  driver.maxaddr = static_cast<haddr_t>(std::numeric_limits<off_t>::max());
  driver.fc_degree = H5F_CLOSE_WEAK;
  driver.fapl_size = sizeof(StagedTarget*);
  driver.open = open_stream;
  driver.close = close_stream;
  driver.cmp = compare;
  driver.query = query;
  driver.get_eoa = get_end_of_allocation;
  driver.set_eoa = set_end_of_allocation;
  driver.get_eof = get_end_of_file;
  driver.read = read_bytes;
  driver.write = write_bytes;
  driver.truncate = truncate_file;
  const H5FD_mem_t kinds[H5FD_MEM_NTYPES] = H5FD_FLMAP_DICHOTOMY;
  std::copy(std::begin(kinds), std::end(kinds), std::begin(driver.fl_map));
  return h5::Handle(H5FDregister(&driver), "register a file driver");
}

void use_staged_driver(hid_t access, hid_t driver, StagedTarget& target) {
  StagedTarget* pointer = &target;
  h5::check(H5Pset_driver(access, driver, &pointer), "select a file driver");
}

}  // namespace vaecf::io
