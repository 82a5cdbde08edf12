#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/prepare/philox_stream.hpp"

namespace vaecf::data {

/// Draws an index with given odds in constant time (Walker's alias method, in Vose's form).
class AliasTable {
 public:
  /// Weights are positive, at least one of them.
  explicit AliasTable(std::span<const double> weights);
  std::int32_t draw(PhiloxStream& random) const;

 private:
  struct Slot {
    float keep;  // odds of the slot's own index
    std::int32_t other;
  };
  std::vector<Slot> slots_;
};

/// Where made-up users get their items from: `tastes` groups of items, popularity falling like a power law
/// over the catalogue, so that each group has its own hits and its own long tail. An item belongs to one
/// group or two. Memory is a few dozen bytes an item, whatever the number of users.
class TasteModel {
 public:
  static constexpr int most_tastes_of_user = 4;

  /// What a user likes, and how much.
  struct Mixture {
    std::size_t count = 0;
    std::array<std::int32_t, most_tastes_of_user> taste{};
    std::array<double, most_tastes_of_user> cumulated{};  ///< shares, added up and not scaled

    /// A taste, drawn by its share.
    std::int32_t draw(PhiloxStream& random) const;
  };

  TasteModel(std::int64_t items, int tastes, std::uint64_t seed);

  int tastes() const { return static_cast<int>(groups_.size()); }
  /// `count` distinct items, at most half of all, of a user who mixes one to four tastes and follows the
  /// crowd now and then. `columns` in the order drawn.
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
  std::vector<std::uint8_t> taken_;  // by the user being drawn
};

}  // namespace vaecf::data
