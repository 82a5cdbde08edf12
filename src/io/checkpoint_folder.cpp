#include <vaecf/io/checkpoint_folder.hpp>

#include "io/file_system.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/io/output_file.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <tuple>

namespace vaecf::io {
namespace {

constexpr std::string_view ending = ".h5";

/// The number in `name` if it is `prefix`, digits, ".h5".
std::optional<std::int64_t> number_in(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix) || !name.ends_with(ending)) return std::nullopt;
  name.remove_prefix(prefix.size());
  if (name.size() <= ending.size()) return std::nullopt;
  name.remove_suffix(ending.size());
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc{} || end != name.data() + name.size() || number < 0) return std::nullopt;
  return number;
}

std::optional<CheckpointCandidate> candidate_named(const std::string& name) {
  std::optional<CheckpointCandidate> found;
  if (const auto epoch = number_in(name, "epoch-")) found = {{}, CheckpointKind::epoch, *epoch};
  if (const auto step = number_in(name, "step-")) found = {{}, CheckpointKind::step, *step};
  if (name == "best.h5") found = {{}, CheckpointKind::best, 0};
  // Only the very name that we would give: "epoch-1.h5" is somebody's own.
  if (found && checkpoint_name(found->kind, found->number) != name) found.reset();
  return found;
}

void copy_file(const std::string& file, const std::string& alias) {
  std::ifstream source(file, std::ios::binary);
  OutputFile copy(alias);
  std::string piece(std::size_t{1} << 20, '\0');
  errno = 0;
  while (source.read(piece.data(), static_cast<std::streamsize>(piece.size())), source.gcount() > 0)
    copy.write(std::string_view(piece).substr(0, static_cast<std::size_t>(source.gcount())));
  if (!source.eof()) {
    throw RunError(format("{}: cannot be made from {}: {}; check that it can be read", alias, file,
                          std::generic_category().message(errno == 0 ? ENOENT : errno)));
  }
  copy.commit();
}

}  // namespace

std::string checkpoint_name(CheckpointKind kind, std::int64_t number) {
  switch (kind) {
    case CheckpointKind::epoch:
      return format("epoch-{:04}.h5", number);
    case CheckpointKind::step:
      return format("step-{:08}.h5", number);
    case CheckpointKind::best:
      break;
  }
  return "best.h5";
}

std::vector<CheckpointCandidate> list_checkpoints(const std::string& folder) {
  std::vector<CheckpointCandidate> found;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  while (!error && entry != std::filesystem::directory_iterator()) {
    std::error_code vanished;
    auto candidate = candidate_named(entry->path().filename().string());
    if (candidate && entry->is_regular_file(vanished)) {
      candidate->path = entry->path().string();
      found.push_back(std::move(*candidate));
    }
    entry.increment(error);
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw RunError(
        format("{}: cannot be searched for checkpoints: {}; check that it is a folder and its permissions",
               folder, error.message()));
  }
  std::ranges::sort(found, {}, [](const CheckpointCandidate& c) { return std::tuple(c.kind, c.number); });
  return found;
}

void publish_alias(const std::string& file, const std::string& alias) {
  make_parent_folder(alias);
  const std::string temporary = temporary_name(alias);
  ::unlink(temporary.c_str());
  if (::linkat(AT_FDCWD, file.c_str(), AT_FDCWD, temporary.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    return copy_file(file, alias);
  }
  const int code = std::rename(temporary.c_str(), alias.c_str()) == 0 ? 0 : errno;
  // Where both are the same file already, rename does nothing and leaves the temporary name.
  ::unlink(temporary.c_str());
  if (code != 0) throw_write_error(alias, code);
  sync_parent_folder(alias);
}

}  // namespace vaecf::io
