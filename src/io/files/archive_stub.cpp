// Replaces archive.cpp in a program built without libarchive.

#include <vaecf/base/error.hpp>

#include "io/files/archive.hpp"

namespace vaecf::io {
namespace {

[[noreturn]] void refuse(const std::string& name) {
  throw InputError(format(
      "{}: is compressed or an archive, and this program was built without libarchive, which reads those; unpack it, or build the program with libarchive (docs/INSTALL.md)",
      name));
}

}  // namespace

Archive::Archive(const std::string& path) {
  refuse(path);
}
Archive::Archive(Archive&, const std::string& name) {
  refuse(name);
}

// No archive is ever open.
bool Archive::next() {
  return false;
}
std::size_t Archive::read(std::span<char>) {
  return 0;
}
std::int64_t Archive::bytes_read() const {
  return 0;
}

}  // namespace vaecf::io
