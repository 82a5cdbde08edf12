#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace vaecf::io {

/// Every matrix of a dataset file, in the order in which fingerprints see them.
inline constexpr std::array<std::string_view, 5> matrix_names = {
    "train", "validation/fold_in", "validation/held_out", "test/fold_in", "test/held_out"};

/// Position of `name` in matrix_names; InputError if it is none of them.
std::size_t matrix_index(std::string_view name);

}  // namespace vaecf::io
