#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/io/atomic_file.hpp>
#include <vaecf/io/checkpoint.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <tuple>
#include <vector>

#include "io/files/file_system.hpp"

namespace vaecf::io {
namespace {

namespace fs = std::filesystem;

/// Returns the checkpoint with this file name, if it is exactly the output of checkpoint_name(). Files such
/// as "epoch-1.h5" belong to other programs.
std::optional<CheckpointEntry> candidate_named(const std::string& name) {
  std::int64_t number = 0;
  if (const std::size_t dash = name.find('-'); dash != std::string::npos) {
    number = std::max<std::int64_t>(0, std::strtoll(name.c_str() + dash + 1, nullptr, 10));
  }
  for (const auto kind : {CheckpointKind::epoch, CheckpointKind::step, CheckpointKind::best}) {
    if (checkpoint_name(kind, number) == name) return CheckpointEntry{"", kind, number};
  }
  return std::nullopt;
}

/// Copies `file` to the new file `copy` and calls fsync on it. Returns 0, or the errno of the failure.
int copy_durably(const std::string& file, const std::string& copy) {
  const Descriptor from(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!from.is_open()) return errno;
  const Descriptor to = open_for_writing(copy, O_EXCL);
  if (!to.is_open()) return errno;
  std::vector<char> piece(std::size_t{4} << 20);
  for (off_t offset = 0;;) {
    const ssize_t got = read_at(from.value(), piece.data(), piece.size(), offset);
    if (got < 0) return errno;
    if (got == 0) return ::fsync(to.value()) == 0 ? 0 : errno;
    const std::string_view bytes(piece.data(), static_cast<std::size_t>(got));
    if (const int code = write_at(to.value(), bytes, offset); code != 0) return code;
    offset += got;
  }
}

}  // namespace

std::string checkpoint_name(CheckpointKind kind, std::int64_t number) {
  if (kind == CheckpointKind::epoch) return format("epoch-{:04}.h5", number);
  if (kind == CheckpointKind::step) return format("step-{:08}.h5", number);
  return "best.h5";
}

std::vector<CheckpointEntry> list_checkpoints(const std::string& folder) {
  std::vector<CheckpointEntry> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code vanished;
    auto candidate = candidate_named(entry->path().filename().string());
    if (!candidate || !entry->is_regular_file(vanished)) continue;
    candidate->path = entry->path().string();
    found.push_back(std::move(*candidate));
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw RunError(
        format("{}: cannot be searched for checkpoints: {}; check that it is a folder and its permissions",
               folder, error.message()));
  }
  std::ranges::sort(found, {}, [](const CheckpointEntry& c) { return std::tuple(c.kind, c.number); });
  return found;
}

void link_or_copy(const std::string& file, const std::string& alias) {
  const std::string temporary = prepare_temporary(alias);
  if (::linkat(AT_FDCWD, file.c_str(), AT_FDCWD, temporary.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    if (const int code = copy_durably(file, temporary); code != 0) {
      ::unlink(temporary.c_str());
      throw RunError(format("{}: cannot be created from {}: {}; check its permissions and the disk", alias,
                            file, std::generic_category().message(code)));
    }
  }
  const int code = std::rename(temporary.c_str(), alias.c_str()) == 0 ? 0 : errno;
  // If both are already the same file, rename does nothing and leaves the temporary name.
  ::unlink(temporary.c_str());
  if (code != 0) throw_write_error(alias, code);
  sync_parent_folder(alias);
}

}  // namespace vaecf::io
