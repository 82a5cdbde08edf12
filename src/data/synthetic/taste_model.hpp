#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/prepare/philox_stream.hpp"

namespace vaecf::data {

/// Samples an index with given probabilities in constant time (Walker's alias method, Vose's construction).
class AliasTable {
 public:
  /// `weights`: at least one; proportional to the probabilities, all positive.
  explicit AliasTable(std::span<const double> weights);
  std::int32_t draw(PhiloxStream& random) const;

 private:
  struct Slot {
    float keep;  // probability of the slot's own index
    std::int32_t other;
  };
  std::vector<Slot> slots_;
};

/// Generative model of synthetic users: `tastes` groups of items, with power-law popularity over the catalog,
/// so that each group has popular items and a long tail. An item belongs to one or two groups. Memory is a
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
    std::int32_t draw(PhiloxStream& random) const;
  };

  TasteModel(std::int64_t items, int tastes, std::uint64_t seed);

  int tastes() const { return static_cast<int>(groups_.size()); }
  /// Samples a user who mixes one to four tastes and sometimes picks from overall popularity. Stores in
  /// `columns`, in sampling order, `count` distinct items, at most half of all.
  Mixture draw_user(PhiloxStream& random, std::int64_t count, std::vector<std::int32_t>& columns);

 private:
  struct Group {
    std::vector<std::int32_t> items;
    AliasTable table;
  };
  std::int32_t draw_item(PhiloxStream& random, const Mixture& mixture) const;

  std::vector<std::int32_t> by_rank_;  // item of each popularity rank
  AliasTable popularity_;
  std::vector<Group> groups_;
  std::vector<std::uint8_t> taken_;  // items of the user being sampled
};

}  // namespace vaecf::data
