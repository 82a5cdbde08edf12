#include "models/linear/dense_scores.hpp"

#include <vaecf/base/multiversioning.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace vaecf::models {
namespace {

// The sums of so many columns fit into registers, and these columns of all rows into a cache for several
// users.
constexpr std::int64_t tile = 64;
constexpr std::size_t ahead = 8;  // items whose weights are fetched before they are needed

/// The weights of one user's items.
struct Rows {
  std::vector<const float*> rows;
  std::span<const float> values;  // empty: all are 1
};

/// Writes the sums of `tile` columns for a user, from column `begin`.
VAECF_CLONES void add_tile(const Rows& user, std::int64_t begin, float* scores) {
  const std::size_t count = user.rows.size();
  const float* const* rows = user.rows.data();
  const float* values = user.values.empty() ? nullptr : user.values.data();
  float sums[tile] = {};
  for (std::size_t n = 0; n < count; ++n) {
    if (n + ahead < count) {
      const float* next = rows[n + ahead] + begin;
      for (std::int64_t j = 0; j < tile; j += 16) __builtin_prefetch(next + j);
    }
    const float* row = rows[n] + begin;
    const float x = values == nullptr ? 1.0F : values[n];
    for (std::int64_t j = 0; j < tile; ++j) sums[j] += x * row[j];
  }
  std::copy_n(sums, tile, scores);
}

}  // namespace

void dense_scores(std::span<const SparseRow> users,
                  const std::function<const float*(std::int64_t item)>& row_of, std::int64_t items,
                  std::span<float> scores) {
  std::vector<Rows> of_users;
  for (const SparseRow& user : users) {
    Rows& of = of_users.emplace_back(Rows{{}, user.values});
    for (const std::int32_t item : user.columns) of.rows.push_back(row_of(item));
  }
  std::int64_t begin = 0;
  for (; begin + tile <= items; begin += tile)
    for (std::size_t u = 0; u < users.size(); ++u) add_tile(of_users[u], begin, &scores[u * items + begin]);
  for (std::size_t u = 0; u < users.size(); ++u) {
    const std::span<float> rest = scores.subspan(u * items + begin, items - begin);
    std::ranges::fill(rest, 0.0F);
    for (std::size_t n = 0; n < of_users[u].rows.size(); ++n) {
      const float* row = of_users[u].rows[n] + begin;
      const float x = users[u].value(n);
      for (std::size_t j = 0; j < rest.size(); ++j) rest[j] += x * row[j];
    }
  }
}

}  // namespace vaecf::models
