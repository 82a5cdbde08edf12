#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/data/prepare_options.hpp>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "data/prepare/split_draws.hpp"

namespace vaecf::data {

/// Chooses the rows of a part whose users are held out: at most a number of those who can be.
class HeldOutRows {
 public:
  /// `wanted`: the number, or automatic: all. `rows`: the rows of a part whose order is not random, of which
  /// the users are drawn; empty: the first rows are taken, since the order of all is random.
  HeldOutRows(std::int64_t wanted, Range rows, std::uint32_t seed) : wanted_(wanted), rows_(rows) {
    if (wanted == PrepareOptions::automatic || rows.size() == 0) return;
    std::vector<std::int32_t> order(static_cast<std::size_t>(rows.size()));
    std::iota(order.begin(), order.end(), 0);
    order = shuffled_users(std::move(order), seed);
    drawn_.assign(order.size(), false);
    for (std::int64_t k = 0; k < std::min(wanted, rows.size()); ++k) drawn_[order[k]] = true;
  }
  /// Returns whether the user of `row`, which can be held out, is. Must be called by ascending row.
  bool take(std::int64_t row) {
    if (wanted_ == PrepareOptions::automatic) return true;
    if (!drawn_.empty()) return drawn_[row - rows_.begin];
    return taken_++ < wanted_;
  }

 private:
  std::int64_t wanted_;
  Range rows_;
  std::vector<bool> drawn_;
  std::int64_t taken_ = 0;
};

}  // namespace vaecf::data
