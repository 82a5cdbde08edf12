#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "data/random.hpp"

namespace vaecf::data {

/// Samples an index with given probabilities in constant time (Walker's alias method, Vose's construction).
class AliasTable {
 public:
  /// `weights`: at least one; proportional to the probabilities, all positive.
  explicit AliasTable(std::span<const double> weights) : slots_(weights.size()) {
    const double mean =
        std::accumulate(weights.begin(), weights.end(), 0.0) / static_cast<double>(weights.size());
    std::vector<double> share(weights.size());
    std::vector<std::int32_t> small;
    std::vector<std::int32_t> large;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      share[i] = weights[i] / mean;
      (share[i] < 1 ? small : large).push_back(static_cast<std::int32_t>(i));
      slots_[i] = {1.0F, static_cast<std::int32_t>(i)};
    }
    while (!small.empty() && !large.empty()) {
      const auto poor = static_cast<std::size_t>(small.back());
      const auto rich = static_cast<std::size_t>(large.back());
      small.pop_back();
      slots_[poor] = {static_cast<float>(share[poor]), static_cast<std::int32_t>(rich)};
      share[rich] -= 1 - share[poor];
      if (share[rich] < 1) {
        small.push_back(large.back());
        large.pop_back();
      }
    }
  }

  std::int32_t draw(PhiloxStream& random) const {
    const auto index = random.below(static_cast<std::uint32_t>(slots_.size()));
    const Slot& slot = slots_[index];
    return random.uniform() < static_cast<double>(slot.keep) ? static_cast<std::int32_t>(index) : slot.other;
  }

 private:
  struct Slot {
    float keep;  // probability of the slot's own index
    std::int32_t other;
  };
  std::vector<Slot> slots_;
};

/// Generative model of synthetic users: `tastes` sets of items, with power-law popularity over the catalog,
/// so that each set has popular items and a long tail. An item belongs to one or two sets. Memory is a
/// few dozen bytes per item and does not depend on the number of users.
class TasteModel {
 public:
  static constexpr int max_tastes_per_user = 4;

  /// Tastes of a user and their weights.
  struct Mixture {
    std::size_t count = 0;
    std::array<std::int32_t, max_tastes_per_user> taste{};
    std::array<double, max_tastes_per_user> cumulated{};  ///< cumulative weights, not normalized

    /// Samples a taste in proportion to its weight.
    std::int32_t draw(PhiloxStream& random) const {
      const double point = random.uniform() * cumulated[count - 1];
      std::size_t t = 0;
      while (t + 1 < count && point >= cumulated[t]) ++t;
      return taste[t];
    }
  };

  TasteModel(std::int64_t items, int tastes, std::uint64_t seed)
      : by_rank_(items), popularity_(power_law(items)), taken_(items, 0) {
    std::iota(by_rank_.begin(), by_rank_.end(), 0);
    PhiloxStream(seed, rank_stream, PhiloxStream::synthesis_step).shuffle(std::span(by_rank_));

    // Among every `tastes` consecutive popularity ranks each taste gets one, so that all tastes have popular
    // items and a long tail.
    const auto count = static_cast<std::size_t>(tastes);
    const std::vector<double> weight = power_law(items);
    std::vector<std::vector<std::int32_t>> members(count);
    std::vector<std::vector<double>> weights(count);
    std::vector<std::size_t> deal(count);
    std::iota(deal.begin(), deal.end(), std::size_t{0});
    PhiloxStream random(seed, taste_stream, PhiloxStream::synthesis_step);
    for (std::size_t rank = 0; rank < by_rank_.size(); ++rank) {
      if (rank % count == 0) random.shuffle(std::span(deal));
      const std::size_t first = deal[rank % count];
      const auto join = [&](std::size_t taste) {
        members[taste].push_back(by_rank_[rank]);
        weights[taste].push_back(weight[rank]);
      };
      join(first);
      if (random.uniform() >= second_taste_share) continue;
      const std::size_t second = random.below(static_cast<std::uint32_t>(count));
      if (second != first) join(second);
    }
    tastes_of_items_.reserve(count);
    for (std::size_t taste = 0; taste < count; ++taste)
      tastes_of_items_.push_back({std::move(members[taste]), AliasTable(weights[taste])});
  }

  /// Samples a user who mixes one to four tastes and sometimes picks from overall popularity. Stores in
  /// `columns`, in sampling order, `count` distinct items, at most half of all.
  Mixture draw_user(PhiloxStream& random, std::int64_t count, std::vector<std::int32_t>& columns) {
    Mixture mixture;
    mixture.count = 1 + random.below(max_tastes_per_user);
    double sum = 0;
    for (std::size_t t = 0; t < mixture.count; ++t) {
      mixture.taste[t] =
          static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(tastes_of_items_.size())));
      sum += -std::log(random.uniform());  // exponential weights: normalized, they are uniform on the simplex
      mixture.cumulated[t] = sum;
    }
    columns.clear();
    for (std::int64_t n = 0; n < count; ++n) {
      const std::int32_t item = draw_item(random, mixture);
      taken_[item] = 1;
      columns.push_back(item);
    }
    for (const std::int32_t item : columns) taken_[item] = 0;
    return mixture;
  }

 private:
  // Popularity of rank r is (r + rank_shift)^-power, similar to film ratings, whose most popular items differ
  // little.
  static constexpr double power = 1.0;
  static constexpr double rank_shift = 10.0;
  static constexpr double second_taste_share = 0.3;  // fraction of the items with a second taste
  static constexpr double crowd_share = 0.15;        // fraction of the picks from overall popularity

  // Streams of the model; user indices are smaller.
  static constexpr std::uint32_t rank_stream = 0xFFFFFFFFu;
  static constexpr std::uint32_t taste_stream = 0xFFFFFFFEu;

  static std::vector<double> power_law(std::int64_t items) {
    std::vector<double> weights(items);
    for (std::size_t r = 0; r < weights.size(); ++r)
      weights[r] = std::pow(static_cast<double>(r) + rank_shift, -power);
    return weights;
  }

  struct Taste {
    std::vector<std::int32_t> items;
    AliasTable table;
  };

  std::int32_t draw_item(PhiloxStream& random, const Mixture& mixture) const {
    // Rejection sampling: if the tastes yield only taken items, overall popularity is tried, then all items,
    // so the loop ends.
    constexpr int max_attempts = 16;
    for (int attempt = 0; attempt < max_attempts; ++attempt) {
      std::int32_t item = 0;
      if (random.uniform() < crowd_share) {
        item = by_rank_[popularity_.draw(random)];
      } else {
        const Taste& taste = tastes_of_items_[mixture.draw(random)];
        item = taste.items[taste.table.draw(random)];
      }
      if (!taken_[item]) return item;
    }
    for (int attempt = 0; attempt < max_attempts; ++attempt) {
      const std::int32_t item = by_rank_[popularity_.draw(random)];
      if (!taken_[item]) return item;
    }
    while (true) {
      const auto item = static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(taken_.size())));
      if (!taken_[item]) return item;
    }
  }

  std::vector<std::int32_t> by_rank_;  // item of each popularity rank
  AliasTable popularity_;
  std::vector<Taste> tastes_of_items_;
  std::vector<std::uint8_t> taken_;  // items of the user being sampled
};

}  // namespace vaecf::data
