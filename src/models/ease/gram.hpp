#pragma once

#include <vaecf/base/aligned_array.hpp>
#include <vaecf/base/log.hpp>
#include <vaecf/device/spd_regression.hpp>
#include <vaecf/models/kind.hpp>

#include <cstdint>
#include <span>
#include <vector>

#include "models/linear/user_weights.hpp"

namespace vaecf::models {

/// Rows and blocks of G = X' diag(w) X for the train matrix X with weights w of the users and features. Items
/// are numbered by position: in descending order of popularity, that is of the weight of their users, and of
/// equally popular items those with the higher index first. G is not stored, except its part of the most
/// popular items, whose users are too many to visit for each block. Each element is a sum in fp32 of
/// (w_u x_ui) x_uj, in ascending order of the users, then of the features, however much is stored; in a
/// block, i is the later position, and in a row the item of the row.
class Gram {
 public:
  /// The number of items with a feature, the most popular ones, that a row takes because of it. A genre of a
  /// large catalog is held by more items than any item can have as neighbors.
  static constexpr std::int64_t max_items_of_feature = 1000;

  /// Stores at most `max_table_bytes` of G. Reports to `progress`, unless it is null. `weights` must outlive
  /// this object.
  Gram(const Interactions& train, const UserWeights& weights, double max_table_bytes, int threads,
       Progress* progress = nullptr);

  std::int64_t items() const { return static_cast<std::int64_t>(order_.size()); }
  std::int64_t users() const { return static_cast<std::int64_t>(row_offsets_.size()) - 1; }
  /// Returns the item at each position.
  std::span<const std::int32_t> order() const { return order_; }
  /// Returns the number of users of the item at position i.
  std::int64_t users_of(std::int64_t i) const { return columns_.view().row_size(i); }
  /// Returns G_ii for the item at position i, in fp64.
  double diagonal(std::int64_t i) const {
    return weights_.of_items[static_cast<std::size_t>(order_[static_cast<std::size_t>(i)])];
  }
  /// Returns m_i = sum of w_u x_ui for the item at position i, in fp64.
  double sum(std::int64_t i) const {
    return weights_.sums[static_cast<std::size_t>(order_[static_cast<std::size_t>(i)])];
  }
  /// Returns 1 / s_i (solve_neighborhoods()) for the item at position i, or 0 if s_i is 0.
  double inverse_scale(std::int64_t i) const;
  /// Returns the sum of the weights of all users and features.
  double total_weight() const { return weights_.sum; }
  /// Returns whether features have weights.
  bool has_features() const { return features_.rows() > 0; }
  /// Returns all positions in ascending order of m_i / s_i, and of equal ones the item with the lower index
  /// first. If all values of X are 1, this is the order of G_ii.
  std::span<const std::int32_t> ascending() const { return ascending_; }

  /// The features of one item.
  struct MarkedFeatures {
    explicit MarkedFeatures(const Gram& gram)
        : weights(gram.weights_.of_users.size() - static_cast<std::size_t>(gram.users()), 0.0F) {}

    std::vector<float> weights;  ///< (features) their weights; 0 for features that the item does not have
    std::int64_t position = -1;  ///< position of the item; -1: none yet
  };
  /// Buffers of one thread.
  struct Workspace {
    explicit Workspace(const Gram& gram)
        : row(static_cast<std::size_t>(gram.items()), 0.0F),
          members(static_cast<std::size_t>(gram.items() / 64 + 1), 0),
          slots(static_cast<std::size_t>(gram.items())),
          last_block(static_cast<std::size_t>(gram.users()), -1),
          marked(gram) {}

    std::vector<float> row;                ///< (items) row of G
    std::vector<std::int32_t> nonzero;     ///< positions with elements above 0
    std::vector<std::uint64_t> members;    ///< a bit for each position: in the block or not
    std::vector<std::int32_t> slots;       ///< (items) index of a position in the block
    std::vector<std::int32_t> last_block;  ///< (users) number of the last block that visited the user
    std::int32_t blocks = 0;
    std::vector<std::int32_t> users;  ///< users of the items whose rows are not stored
    std::vector<std::int32_t> hits;   ///< indices in the block of one user's items
    std::vector<float> hit_values;    ///< like `hits`; empty: all are 1
    MarkedFeatures marked;
  };
  /// Writes row i of G to `work.row`, and the positions of its nonzero elements to `work.nonzero`, in no
  /// particular order. Items that share a feature with item i, but no user, are left out unless they are
  /// among the max_items_of_feature most popular items of such a feature.
  void read_row(std::int64_t i, Workspace& work) const;
  /// Adds element `other` to the row of the last read_row() if that has left it out.
  void complete_row(std::int32_t other, Workspace& work) const;
  /// Adds G_ab of all pairs of different `positions`, which are ascending, to the elements (a's index, b's
  /// index) of `block`.
  void add_block(std::span<const std::int32_t> positions, device::SpdRegression& block,
                 Workspace& work) const;

 private:
  CsrView rows() const {
    return {row_offsets_,
            {row_positions_.data(), static_cast<std::size_t>(row_positions_.size())},
            {row_values_.data(), static_cast<std::size_t>(row_values_.size())}};
  }
  float weight(std::int64_t user) const { return weights_.of_users[static_cast<std::size_t>(user)]; }
  /// Calls use(w_u x_ui, the user's row) for the users of the item at position i, in ascending order.
  template <class Use>
  void for_users(std::int64_t i, const Use& use) const;
  void read_features(const Interactions& train);
  /// Marks the features of the item at position i.
  void mark_features(std::int64_t i, MarkedFeatures& marked) const;
  /// Adds the weights of the marked features that the item at position i has to `element`.
  void add_shared_features(std::int64_t i, const MarkedFeatures& marked, float& element) const;
  const float* table_row(std::int64_t i) const { return table_.data() + i * (i - 1) / 2; }

  const UserWeights& weights_;
  std::vector<std::int32_t> order_;
  std::vector<std::int32_t> ascending_;
  bool weighted_;  // the weights of users with items, or the values of X, differ
  // X by users: positions, ascending in each row. Rows are read in random order, so they are in huge pages.
  std::vector<std::int64_t> row_offsets_;
  AlignedArray<std::int32_t> row_positions_;
  AlignedArray<float> row_values_;
  Csr columns_;                // X by positions: users
  Csr features_;               // features of each position; no rows without features
  Csr holders_;                // most popular positions of each feature, ascending
  std::int64_t stored_ = 0;    // G of the first positions is stored
  AlignedArray<float> table_;  // G_ib at i (i - 1) / 2 + b for b < i < stored_
};

}  // namespace vaecf::models
