#include <vaecf/base/failure.hpp>
#include <vaecf/base/text.hpp>
#include <vaecf/io/spill_file.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <xxhash.h>

#include <cerrno>

#include "io/files/file_system.hpp"

namespace vaecf::io {

SpillFile::SpillFile(const std::string& path) : path_(path + ".spill") {
  const std::string name = prepare_temporary(path_);
  descriptor_ = open_for_writing(name, O_EXCL, 0600);
  if (!descriptor_.is_open()) throw_write_error(path_, errno);
  ::unlink(name.c_str());
}

std::int64_t SpillFile::append(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const int code = write_at(descriptor_.value(), text, size_);
  if (code != 0) throw_write_error(path_, code);
  return std::exchange(size_, size_ + static_cast<std::int64_t>(bytes.size()));
}

void SpillFile::read(std::int64_t offset, std::span<std::byte> to) const {
  const ssize_t got = read_at(descriptor_.value(), reinterpret_cast<char*>(to.data()), to.size(), offset);
  if (got == static_cast<ssize_t>(to.size())) return;
  throw CausedError(FailureCode::disk, format("{}: temporary data cannot be read: {}; check the disk", path_,
                                              std::generic_category().message(got < 0 ? errno : EIO)));
}

void SpillFile::discard(std::int64_t offset, std::int64_t bytes) {
  // File systems without hole punching keep the space until the file is closed.
  std::ignore = ::fallocate(descriptor_.value(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                            static_cast<off_t>(offset), static_cast<off_t>(bytes));
}

}  // namespace vaecf::io
