#pragma once

#include <cstdint>
#include <string_view>

namespace vaecf::io {

/// XXH64 of xxHash: the same number on every machine and in every language that has the library. For tables,
/// not against forgers.
std::uint64_t xxh64(std::string_view bytes, std::uint64_t seed = 0);

}  // namespace vaecf::io
