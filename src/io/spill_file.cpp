#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/io/spill_file.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>

#include "io/staged_file.hpp"

namespace vaecf::io {

struct SpillFile::File {
  explicit File(const std::string& path) : staged(path + ".spill") {}
  StagedFile staged;  // which is never published
  std::int64_t size = 0;
};

SpillFile::SpillFile(const std::string& path) : file_(std::make_unique<File>(path)) {}
SpillFile::~SpillFile() = default;
SpillFile::SpillFile(SpillFile&&) noexcept = default;
SpillFile& SpillFile::operator=(SpillFile&&) noexcept = default;

SpillFile::Extent SpillFile::append(std::span<const std::byte> bytes) {
  const Extent extent{file_->size, static_cast<std::int64_t>(bytes.size())};
  write_bytes(file_->staged.descriptor(), {reinterpret_cast<const char*>(bytes.data()), bytes.size()},
              file_->staged.path());
  file_->size += extent.bytes;
  return extent;
}

void SpillFile::read(std::int64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t got = ::pread(file_->staged.descriptor(), to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      throw RunError(format("{}: what was put aside cannot be read back: {}; check the disk",
                            file_->staged.path(), std::generic_category().message(got < 0 ? errno : EIO)));
    }
    offset += got;
    to = to.subspan(static_cast<std::size_t>(got));
  }
}

void SpillFile::discard(const Extent& extent) {
#ifdef FALLOC_FL_PUNCH_HOLE
  // A file system that cannot do so keeps it until the end.
  if (extent.bytes > 0 &&
      ::fallocate(file_->staged.descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(extent.offset), static_cast<off_t>(extent.bytes)) != 0) {
    return;
  }
#endif
}

std::int64_t SpillFile::size() const {
  return file_->size;
}

}  // namespace vaecf::io
