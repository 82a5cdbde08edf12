#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace vaecf::io {

/// Every matrix of a dataset file, in the order in which fingerprints see them.
inline constexpr std::array<std::string_view, 8> matrix_names = {
    "train",         "validation/fold_in", "validation/held_out", "test/fold_in",
    "test/held_out", "train/features",     "validation/features", "test/features"};

/// From here on the columns of a matrix are features of users, not items, and it may be absent.
inline constexpr std::size_t first_features = 5;
/// The matrix whose users those of matrix_names[first_features + i] are.
inline constexpr std::array<std::size_t, 3> users_of_features = {0, 1, 3};

/// Position of `name` in matrix_names; InputError if it is none of them.
std::size_t matrix_index(std::string_view name);

}  // namespace vaecf::io
