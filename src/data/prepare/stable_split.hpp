#pragma once

#include <vaecf/data/prepare.hpp>
#include <vaecf/io/checkpoint.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vaecf::data {

/// The users of the split `stable`: train, then validation, then test.
struct StableOrder {
  std::vector<std::int32_t> users;
  std::array<std::int64_t, 3> counts{};  ///< number of users of each part
};

/// Divides `users`, indices of `ids`, by h = XXH64(id as text, seed) / 2^64: below `test_fraction` a test
/// user, below the sum of both fractions a validation user, else a train user. So the part of a user depends
/// on nothing but the id, the seed and the fractions. Users of a part keep their order. Throws InputError if
/// no user is left to train on.
StableOrder stable_order(std::span<const std::int32_t> users, const io::IdList& ids,
                         const PrepareOptions& options);

/// Returns which of the n items of a held-out user are targets: the max(1, floor(held_out_fraction n)) with
/// the smallest XXH64(user id, zero byte, item id; seed) if n >= 2, else none. `items` are ids as text.
std::vector<bool> stable_targets(const std::string& user, std::span<const std::string> items,
                                 const PrepareOptions& options);

}  // namespace vaecf::data
