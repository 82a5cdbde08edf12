#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace vaecf::io {

/// Returns the folder that `path` lies in.
std::filesystem::path folder_of(const std::string& path);

/// Makes the folder that `path` lies in. Throws RunError if that cannot be.
void make_parent_folder(const std::string& path);

/// Throws RunError for a write that failed with `code` (an errno).
[[noreturn]] void throw_write_error(const std::string& path, int code);

/// Returns the name under which this process writes what shall become `path`: `path.tmp-HOST-PID`.
std::string temporary_name(const std::string& path);

/// Writes all of `bytes` from `offset` on. Returns 0, or the errno of the write that failed.
int write_at(int descriptor, std::string_view bytes, off_t offset);

/// Fills `out` from `offset` as far as the file goes. Returns the number of bytes, or -1 with errno set.
ssize_t read_at(int descriptor, char* out, std::size_t size, off_t offset);

/// Makes the names in the folder that `path` lies in last. Throws RunError if the disk refuses.
void sync_parent_folder(const std::string& path);

}  // namespace vaecf::io
