#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

namespace vaecf::io {

/// Fills a part of the bytes with the next ones of a stream. Returns their number, 0 at the end.
using ByteSource = std::function<std::size_t(std::span<char>)>;

/// Returns `source`, decompressed if it is gzip, several times if necessary. libarchive does not verify
/// checksums of gzip; the returned source verifies the checksum and the length of every member, and throws
/// InputError, which names `name`, if they differ, or if the stream is truncated or followed by other bytes
/// than zeros.
ByteSource without_gzip(ByteSource source, const std::string& name);

/// Throws InputError: the file `name` is damaged.
[[noreturn]] void throw_damaged(const std::string& name, const char* why);

}  // namespace vaecf::io
