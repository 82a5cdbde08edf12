#pragma once

#include <vaecf/base/views.hpp>

#include <cstdint>
#include <functional>
#include <span>

namespace vaecf::models {

/// The number of users that share the rows of B which dense_scores() reads.
inline constexpr std::int64_t dense_users_at_once = 64;

/// Writes x B for each user x, (users, items), where row_of(i) is the row of item i in B. Each element is the
/// sum over the user's items in ascending order, whatever the instruction set and the other users of the
/// call.
void dense_scores(std::span<const SparseRow> users,
                  const std::function<const float*(std::int64_t item)>& row_of, std::int64_t items,
                  std::span<float> scores);

}  // namespace vaecf::models
