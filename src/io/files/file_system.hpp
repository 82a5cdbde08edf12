#pragma once

#include <vaecf/io/descriptor.hpp>

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

/// Opens the file `path` for writing and reading; creates it if it does not exist. Every file that the
/// program writes is opened here. A symbolic link is not followed (ELOOP), because in a folder that other
/// users may write to, it can lead to any file. `flags`: O_EXCL if the file must not exist, O_APPEND, or 0.
/// Returns a closed descriptor on failure, with errno set.
Descriptor open_for_writing(const std::string& path, int flags, mode_t mode = 0666);

/// Returns a new name under which this process can write `path` until it is complete:
/// `path.tmp-HOST-PID-RANDOM`.
std::string temporary_path(const std::string& path);

/// Returns temporary_path(path). Creates the folder if needed, and removes temporary files that terminated
/// writers of `path` left. Throws RunError if the folder cannot be created.
std::string prepare_temporary(const std::string& path);

/// Writes all of `bytes` at `offset`. Returns 0, or the errno of the failed write.
int write_at(int descriptor, std::string_view bytes, off_t offset);

/// Reads up to `size` bytes at `offset`, fewer only at the end of the file. Returns the number of bytes, or
/// -1 with errno set.
ssize_t read_at(int descriptor, char* out, std::size_t size, off_t offset);

/// Calls fsync on the parent folder of `path`, so that renames in it are durable. Throws RunError on failure.
void sync_parent_folder(const std::string& path);

}  // namespace vaecf::io
