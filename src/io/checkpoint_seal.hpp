#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace vaecf::io {

inline constexpr std::size_t seal_bytes = 512;
inline constexpr const char* how_to_get_a_checkpoint = "name a checkpoint that a training run has written";

/// The user block in front of a checkpoint's HDF5 part: magic (8 bytes), format version (uint32), zero
/// (uint32), length of the rest of the file (uint64), xxh3 (64 bit) of that rest (uint64), zeros to 512; all
/// little-endian.
using SealBlock = std::array<char, seal_bytes>;

/// The block for the file behind `descriptor`, read from byte 512 to its end. RunError if that fails.
SealBlock make_seal(int descriptor, const std::string& path);

/// The checksum of the checkpoint `path`. InputError unless its bytes are those that were written.
std::uint64_t verify_seal(const std::string& path);

}  // namespace vaecf::io
