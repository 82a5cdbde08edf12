#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace vaecf::io {

/// Returns the parent folder of `path`, "." if it has none.
std::filesystem::path folder_of(const std::string& path);

/// Creates the parent folder of `path`. Throws RunError on failure.
void make_parent_folder(const std::string& path);

/// Throws RunError for a write to `path` that failed with errno `code`.
[[noreturn]] void throw_write_error(const std::string& path, int code);

/// Returns the temporary name under which this process writes `path`: `path.tmp-HOST-PID`.
std::string temporary_path(const std::string& path);

/// Writes all of `bytes` at `offset`. Returns 0, or the errno of the failed write.
int write_at(int descriptor, std::string_view bytes, off_t offset);

/// Reads up to `size` bytes at `offset`, fewer only at the end of the file. Returns the number of bytes, or
/// -1 with errno set.
ssize_t read_at(int descriptor, char* out, std::size_t size, off_t offset);

/// Calls fsync on the parent folder of `path`, so that renames in it are durable. Throws RunError on failure.
void sync_parent_folder(const std::string& path);

}  // namespace vaecf::io
