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
constexpr std::size_t ahead = 8;     // items whose weights are fetched before they are needed
constexpr std::int64_t sharing = 8;  // users who have so many items in common that tiles are faster

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

/// Adds `count` rows, from row `first` on, to the columns from `begin` on. Each row is a stream of memory,
/// of which processors fetch several at a time.
template <std::size_t count>
VAECF_INLINE void add_rows(const Rows& user, std::size_t first, std::int64_t begin, std::span<float> scores) {
  constexpr std::size_t width = 16, distance = 64;
  const float* rows[count];
  float values[count];
  for (std::size_t n = 0; n < count; ++n) {
    rows[n] = user.rows[first + n] + begin;
    values[n] = user.values.empty() ? 1.0F : user.values[first + n];
  }
  std::size_t j = 0;
  for (; j + width <= scores.size(); j += width) {
    for (std::size_t n = 0; n < count; ++n) __builtin_prefetch(rows[n] + j + distance);
    float sums[width];
    std::copy_n(&scores[j], width, sums);
    for (std::size_t n = 0; n < count; ++n)
      for (std::size_t i = 0; i < width; ++i) sums[i] += values[n] * rows[n][j + i];
    std::copy_n(sums, width, &scores[j]);
  }
  for (; j < scores.size(); ++j)
    for (std::size_t n = 0; n < count; ++n) scores[j] += values[n] * rows[n][j];
}

/// Writes the sums of the columns from `begin` on for a user.
VAECF_CLONES void add_all(const Rows& user, std::int64_t begin, std::span<float> scores) {
  std::ranges::fill(scores, 0.0F);
  std::size_t n = 0;
  for (; n + 8 <= user.rows.size(); n += 8) add_rows<8>(user, n, begin, scores);
  for (; n < user.rows.size(); ++n) add_rows<1>(user, n, begin, scores);
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
  if (std::ssize(users) >= sharing)
    for (; begin + tile <= items; begin += tile)
      for (std::size_t u = 0; u < users.size(); ++u) add_tile(of_users[u], begin, &scores[u * items + begin]);
  for (std::size_t u = 0; u < users.size(); ++u)
    add_all(of_users[u], begin, scores.subspan(u * items + begin, items - begin));
}

}  // namespace vaecf::models
