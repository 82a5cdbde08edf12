#pragma once

#include <vaecf/io/checkpoint.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "io/stored_matrix.hpp"

namespace vaecf::io {

/// Hands over whatever else is to be told apart, piece by piece.
using Contents = std::function<void(const std::function<void(std::span<const std::byte>)>& add)>;

/// Returns 16 digits that tell two datasets apart: xxh3 over the offsets of all matrices, the attributes, and
/// what `contents` adds. They are the same for a dataset that is compressed and for one that is not.
std::string fingerprint_of(const Attributes& attributes, const InputFile& file, const Matrices& matrices,
                           const Contents& contents);

}  // namespace vaecf::io
