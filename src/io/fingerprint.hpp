#pragma once

#include <vaecf/io/checkpoint.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace vaecf::io {

/// The offsets of a dataset's matrices, by their index in matrix_names, wherever they lie.
struct OffsetSource {
  using Use = std::function<void(std::span<const std::int64_t>)>;
  std::function<std::int64_t(std::size_t matrix)> rows;                    ///< -1 where it is not there
  std::function<void(std::size_t matrix, const Use& use)> for_each_piece;  ///< all of its rows + 1 offsets
};

/// Hands over whatever else is to be told apart, piece by piece.
using Contents = std::function<void(const std::function<void(std::span<const std::byte>)>& add)>;

/// What tells two datasets apart: xxh3 over the offsets of all matrices, each as one whole, the attributes,
/// and what `contents` adds; 16 digits. The same however many files they lie in, and packed or not; of
/// contents several files know nothing.
std::string fingerprint_of(const Attributes& attributes, const OffsetSource& offsets,
                           const Contents& contents = {});

}  // namespace vaecf::io
