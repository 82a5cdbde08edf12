#include <vaecf/base/failure.hpp>
#include <vaecf/base/host.hpp>
#include <vaecf/base/text.hpp>
#include <vaecf/io/atomic_file.hpp>
#include <vaecf/io/descriptor.hpp>
#include <vaecf/io/hash.hpp>

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <xxhash.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <random>
#include <regex>
#include <system_error>

#include "io/files/file_system.hpp"

namespace vaecf::io {
namespace {

namespace fs = std::filesystem;

/// Throws if `path` is a folder or a device: a rename would replace /dev/null itself, or /dev/stdout, which
/// is a link into /proc.
void refuse_device(const std::string& path) {
  std::error_code ignored;
  const auto there = fs::status(path, ignored);
  if (fs::is_directory(there)) throw_write_error(path, EISDIR);
  const bool to_descriptor = fs::read_symlink(path, ignored).string().starts_with("/proc/");
  if (!to_descriptor && (!fs::exists(there) || fs::is_regular_file(there))) return;
  throw CausedError(
      FailureCode::disk,
      format("{}: is a device or a pipe; choose a regular file, because outputs are written atomically",
             path));
}

/// Returns whether the process `process` on `host`, which writes `file`, has terminated. Processes of other
/// hosts are judged by the age of the file. A process writes a path once at a time, so other files with its
/// number are of an earlier process: in a restarted container, numbers repeat.
bool is_stale(const fs::path& file, const std::string& host, pid_t process) {
  if (host == host_name()) return process == ::getpid() || (::kill(process, 0) != 0 && errno == ESRCH);
  std::error_code error;
  const auto written = fs::last_write_time(file, error);
  return !error && fs::file_time_type::clock::now() - written > std::chrono::hours(1);
}

}  // namespace

fs::path folder_of(const std::string& path) {
  const auto parent = fs::path(path).parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

void throw_write_error(const std::string& path, int code) {
  const char* advice = "check the folder and its permissions";
  if (code == ENOSPC || code == EDQUOT || code == EFBIG) advice = "free some space or choose another folder";
  if (code == ELOOP) advice = "remove the symbolic link";
  throw CausedError(FailureCode::disk, format("{}: cannot be written: {}; {}", path,
                                              std::generic_category().message(code), advice));
}

void make_parent_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(folder_of(path), error);
  if (error) throw_write_error(path, error.value());
}

int write_at(int descriptor, std::string_view bytes, off_t offset) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(descriptor, bytes.data(), bytes.size(), offset);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return put < 0 ? errno : EIO;
    bytes.remove_prefix(static_cast<std::size_t>(put));
    offset += put;
  }
  return 0;
}

ssize_t read_at(int descriptor, char* out, std::size_t size, off_t offset) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = ::pread(descriptor, out + done, size - done, offset + static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return static_cast<ssize_t>(done);
}

void sync_parent_folder(const std::string& path) {
  const Descriptor folder(::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open()) return;  // write-only folder: the rename has succeeded, but cannot be synchronized
  // File systems that do not support fsync on a folder return EINVAL or ENOTSUP.
  if (::fsync(folder.value()) != 0 && errno != EINVAL && errno != ENOTSUP) throw_write_error(path, errno);
}

Descriptor open_for_writing(const std::string& path, int flags, mode_t mode) {
  return Descriptor(::open(path.c_str(), flags | O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, mode));
}

std::string temporary_path(const std::string& path) {
  return format("{}.tmp-{}-{}-{:08x}", path, host_name(), ::getpid(), std::random_device{}());
}

std::string prepare_temporary(const std::string& path) {
  make_parent_folder(path);
  remove_stale_temporaries(folder_of(path).string(), fs::path(path).filename().string() + ".tmp-");
  return temporary_path(path);
}

void remove_stale_temporaries(const std::string& folder, std::string_view prefix) {
  static const std::regex form(R"(.+\.tmp-(.+)-([0-9]{1,9})-[0-9a-f]{8})");
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::smatch writer;
    std::error_code ignored;
    if (name.starts_with(prefix) && std::regex_match(name, writer, form) &&
        fs::is_regular_file(entry->symlink_status(ignored)) &&
        is_stale(entry->path(), writer[1], std::stoi(writer[2]))) {
      fs::remove(entry->path(), ignored);
    }
  }
}

void validate_output_path(const std::string& output, const std::string& name,
                          const std::vector<std::string>& read) {
  std::error_code unknown;
  if (output.ends_with('/') || fs::is_directory(output, unknown))
    throw InputError(format("{} is {}, which is a folder; choose a file", name, output));
  for (const std::string& path : read) {
    std::error_code ignored;
    if (!fs::equivalent(output, path, ignored)) continue;
    throw InputError(
        format("{} is {}, an input file that would be overwritten; choose another file", name, output));
  }
}

std::string resolve_symlinks(const std::string& path) {
  std::error_code ignored;
  std::string place = path;
  constexpr int max_symlinks = 40;  // Linux's own limit
  for (int i = 0; fs::is_symlink(place, ignored); ++i) {
    if (i == max_symlinks) throw_write_error(path, ELOOP);
    place = folder_of(place) / fs::read_symlink(place, ignored);
  }
  return place;
}

AtomicOutputFile::AtomicOutputFile(const std::string& path) {
  refuse_device(path);
  path_ = resolve_symlinks(path);
  temporary_ = prepare_temporary(path_);
  descriptor_ = open_for_writing(temporary_, O_EXCL);
  if (!descriptor_.is_open()) throw_write_error(path_, errno);
}

AtomicOutputFile::~AtomicOutputFile() {
  if (descriptor_.is_open()) ::unlink(temporary_.c_str());
}

void AtomicOutputFile::write(std::string_view bytes) {
  if (const int code = write_at(descriptor(), bytes, size_); code != 0) throw_write_error(path_, code);
  size_ += static_cast<off_t>(bytes.size());
}

void AtomicOutputFile::commit() {
  if (::fsync(descriptor()) != 0 || std::rename(temporary_.c_str(), path_.c_str()) != 0)
    throw_write_error(path_, errno);
  descriptor_.reset();
  sync_parent_folder(path_);
}

void write_file_atomically(const std::string& path, std::string_view text) {
  AtomicOutputFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace vaecf::io
