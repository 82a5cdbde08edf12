#include <vaecf/base/host.hpp>
#include <vaecf/base/text.hpp>
#include <vaecf/io/atomic_file.hpp>
#include <vaecf/io/descriptor.hpp>
#include <vaecf/io/file_lock.hpp>
#include <vaecf/io/hash.hpp>
#include <vaecf/io/spill_file.hpp>

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <xxhash.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <regex>
#include <system_error>
#include <thread>
#include <tuple>

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
  throw RunError(format(
      "{}: is a device or a pipe; choose a regular file, because outputs are written atomically", path));
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

/// Opens `path`, or an unnamed temporary file in its folder if that fails.
Descriptor open_for_probe(const std::string& path) {
  Descriptor existing(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (existing.is_open()) return existing;
  return Descriptor(::open(folder_of(path).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
}

Descriptor open_lock(const std::string& path) {
  Descriptor file = open_for_writing(path, 0);
  // A file of another user can be locked without write permission.
  if (!file.is_open() && errno == EACCES)
    file = Descriptor(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (file.is_open()) return file;
  throw InputError(format(
      "{}: cannot open the lock file that protects this folder from a second run ({}); remove it if no other run uses the folder, or choose another name or run.directory",
      path, std::generic_category().message(errno)));
}

/// Returns the line that the holder of the lock at `path` wrote.
std::string read_holder(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path) >> std::ws, line);
  return line.empty() ? "unknown process" : excerpt(line);
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
  throw RunError(
      format("{}: cannot be written: {}; {}", path, std::generic_category().message(code), advice));
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
  throw RunError(format("{}: temporary data cannot be read: {}; check the disk", path_,
                        std::generic_category().message(got < 0 ? errno : EIO)));
}

void SpillFile::discard(std::int64_t offset, std::int64_t bytes) {
  // File systems without hole punching keep the space until the file is closed.
  std::ignore = ::fallocate(descriptor_.value(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                            static_cast<off_t>(offset), static_cast<off_t>(bytes));
}

DirectoryLock::DirectoryLock(const std::string& folder, std::chrono::milliseconds timeout) {
  const std::string path = format("{}/{}", folder, file_name);
  Descriptor file = open_lock(path);
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (::flock(file.value(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return;
    if (std::chrono::steady_clock::now() >= end) {
      throw InputError(format(
          "{}: another run is using this folder ({}); wait for it to end, choose another name or run.directory, or remove {} if that process has terminated",
          folder, read_holder(path), path));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  const std::string holder = format("process {} on {}\n", ::getpid(), host_name());
  // The lock is valid even if the holder cannot be written.
  if (::ftruncate(file.value(), 0) == 0)
    std::ignore = ::pwrite(file.value(), holder.data(), holder.size(), 0);
  file_ = std::move(file);
}

FileLockStatus probe_file_lock(const std::string& path) {
  const Descriptor file = open_for_probe(path);
  if (!file.is_open()) return FileLockStatus::unknown;
  if (::flock(file.value(), LOCK_SH | LOCK_NB) == 0) return FileLockStatus::available;
  return errno == EWOULDBLOCK ? FileLockStatus::held : FileLockStatus::unsupported;
}

FileInUseError::FileInUseError(const std::string& path)
    : InputError(format(
          "{}: is in use by another process, which has locked it; wait until it has closed the file", path)) {
}

void throw_if_in_use(const std::string& path) {
  if (probe_file_lock(path) == FileLockStatus::held) throw FileInUseError(path);
}

std::uint64_t xxh64(std::string_view bytes, std::uint64_t seed) {
  return XXH64(bytes.data(), bytes.size(), seed);
}

struct Xxh3::State {
  XXH3_state_t xxh;
};

// The functions for 64 and 128 bits differ in the digest only.
Xxh3::Xxh3() : state_(std::make_shared<State>()) {
  XXH3_128bits_reset(&state_->xxh);
}

void Xxh3::update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size());
}

std::uint64_t Xxh3::hash64() const {
  return XXH3_64bits_digest(&state_->xxh);
}

std::string Xxh3::hash128() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->xxh);
  return format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace vaecf::io
