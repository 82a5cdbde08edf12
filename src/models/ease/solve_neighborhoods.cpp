#include <vaecf/base/error.hpp>
#include <vaecf/base/host.hpp>
#include <vaecf/base/parallel_for.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "models/ease/ease_model.hpp"
#include "models/ease/gram.hpp"
#include "models/linear/user_weights.hpp"

namespace vaecf::models {
namespace {

/// Items with fewer users are not stored, because their users are quickly visited.
constexpr std::int64_t min_stored_users = 16;

/// Returns the items in descending order of `values`; of equal ones the item with the higher index first.
std::vector<std::int32_t> descending_order(std::span<const double> values) {
  std::vector<std::int32_t> order(values.size());
  std::iota(order.rbegin(), order.rend(), 0);
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](std::int32_t item) { return values[static_cast<std::size_t>(item)]; });
  return order;
}

/// Returns the position of each item in `order`.
std::vector<std::int32_t> positions_in(std::span<const std::int32_t> order) {
  std::vector<std::int32_t> position(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    position[static_cast<std::size_t>(order[i])] = static_cast<std::int32_t>(i);
  return position;
}

/// Returns X with the items at the given positions.
Interactions reorder(const Interactions& train, std::span<const std::int32_t> position, int threads) {
  Csr users = train.users;
  parallel_for(threads, {0, users.rows()}, [&](std::int64_t user) {
    const auto begin = users.columns.begin() + users.offsets[static_cast<std::size_t>(user)];
    const auto end = users.columns.begin() + users.offsets[static_cast<std::size_t>(user) + 1];
    for (auto item = begin; item != end; ++item) *item = position[static_cast<std::size_t>(*item)];
    if (users.values.empty()) return std::sort(begin, end);
    const auto values = users.values.begin() + users.offsets[static_cast<std::size_t>(user)];
    std::vector<std::pair<std::int32_t, float>> row;
    for (auto item = begin; item != end; ++item) row.emplace_back(*item, values[item - begin]);
    std::ranges::sort(row);
    for (std::ptrdiff_t k = 0; k < end - begin; ++k)
      std::tie(begin[k], values[k]) = row[static_cast<std::size_t>(k)];
  });
  return make_interactions(std::move(users), std::ssize(position));
}

struct Candidate {
  double correlation;  // (G_ij - m_i m_j / S) / s_i, which orders the items as the correlation with j does
  std::int32_t item;
  std::int32_t position;
};

/// Finds the neighbors of items and solves for their weights, on one thread.
class NeighborhoodSolver {
 public:
  /// `inverse_scale` contains 1 / s_i of each position, or 0 if s_i is 0. `l2` is multiplied by the mean
  /// weight of the users.
  NeighborhoodSolver(const Gram& gram, std::span<const double> inverse_scale, std::int64_t neighbors,
                     double l2, double dropout)
      : gram_(gram),
        inverse_scale_(inverse_scale),
        neighbors_(static_cast<std::size_t>(neighbors)),
        l2_(l2),
        dropout_(dropout),
        work_(gram) {}

  /// Writes the neighbors of the item at position j and their weights to `list`; weights of 0 are left out.
  /// Returns P_jj, or 0 if the matrix is not positive definite.
  double solve(std::int64_t j, NeighborList& list) {
    gram_.read_row(j, work_);
    select(j);
    const auto last = static_cast<std::int64_t>(positions_.size());
    system_.reset(last + 1);
    gram_.add_block(positions_, system_, work_);
    for (std::int64_t a = 0; a < last; ++a) {
      const std::int32_t position = positions_[static_cast<std::size_t>(a)];
      system_.at(a, a) = diagonal(position);
      system_.at(a, last) = work_.row[static_cast<std::size_t>(position)];
    }
    system_.at(last, last) = diagonal(j);
    coefficients_.resize(positions_.size());
    const float pivot = system_.solve(coefficients_);
    if (!(pivot > 0.0F)) return 0.0;
    const auto kept =
        static_cast<std::size_t>(std::ranges::count_if(coefficients_, [](float b) { return b != 0.0F; }));
    list.neighbors.reserve(kept);
    list.weights.reserve(kept);
    for (std::size_t a = 0; a < positions_.size(); ++a) {
      if (coefficients_[a] == 0.0F) continue;
      list.neighbors.push_back(gram_.order()[static_cast<std::size_t>(positions_[a])]);
      list.weights.push_back(coefficients_[a]);
    }
    return 1.0 / pivot;
  }

 private:
  float diagonal(std::int64_t position) const {
    const double gram = gram_.diagonal(position);
    return static_cast<float>(gram + math::linear_penalty(l2_, gram, dropout_));
  }

  /// Writes the neighbors of the item at position j, ascending, to positions_. work_ contains row j of G.
  void select(std::int64_t j) {
    candidates_.clear();
    const double expected = gram_.sum(j) / gram_.total_weight();
    const auto add = [&](std::int32_t position) {
      const auto i = static_cast<std::size_t>(position);
      const double surplus = static_cast<double>(work_.row[i]) - expected * gram_.sum(position);
      candidates_.push_back({surplus * inverse_scale_[i], gram_.order()[i], position});
    };
    for (const std::int32_t position : work_.nonzero)
      if (position != j) add(position);
    // Correlations with items that share neither users nor features with j are negative, and the item with
    // the smaller m_i / s_i comes first.
    std::size_t known = static_cast<std::size_t>(
        std::ranges::count_if(candidates_, [](const Candidate& c) { return c.correlation > 0.0; }));
    for (const std::int32_t i : gram_.ascending()) {
      if (known >= neighbors_) break;
      if (i == j || gram_.diagonal(i) == 0.0 || work_.row[static_cast<std::size_t>(i)] > 0.0F) continue;
      if (gram_.has_features()) gram_.complete_row(i, work_);
      add(i);
      ++known;
    }
    if (candidates_.size() > neighbors_) {
      std::ranges::nth_element(candidates_, candidates_.begin() + static_cast<std::ptrdiff_t>(neighbors_),
                               [](const Candidate& a, const Candidate& b) {
                                 return a.correlation != b.correlation ? a.correlation > b.correlation
                                                                       : a.item < b.item;
                               });
      candidates_.resize(neighbors_);
    }
    positions_.clear();
    for (const Candidate& candidate : candidates_) positions_.push_back(candidate.position);
    std::ranges::sort(positions_);
  }

  const Gram& gram_;
  std::span<const double> inverse_scale_;
  std::size_t neighbors_;
  double l2_;
  double dropout_;
  Gram::Workspace work_;
  std::vector<Candidate> candidates_;
  std::vector<std::int32_t> positions_;
  device::SpdRegression system_;
  std::vector<float> coefficients_;
};

}  // namespace

template <class Use>
void Gram::for_users(std::int64_t i, const Use& use) const {
  const SparseRow users = columns_.view().sparse_row(i);
  for (std::size_t n = 0; n < users.columns.size(); ++n)
    use(weight(users.columns[n]) * users.value(n), rows().sparse_row(users.columns[n]));
}

Gram::Gram(const Interactions& train, const UserWeights& weights, double max_table_bytes, int threads,
           Progress* progress)
    : weights_(weights), order_(descending_order(weights.popularity)) {
  const std::vector<std::int32_t> position = positions_in(order_);
  std::vector<double> ratios = weights.of_items;
  for (std::size_t i = 0; i < ratios.size() && !train.users.values.empty(); ++i) {
    const double inverse = inverse_scale(position[i]);
    ratios[i] = inverse > 0.0 ? weights.sums[i] * inverse : std::numeric_limits<double>::infinity();
  }
  ascending_ = descending_order(ratios);
  std::ranges::reverse(ascending_);
  for (std::int32_t& item : ascending_) item = position[static_cast<std::size_t>(item)];
  const auto of_users = std::span(weights.of_users).first(static_cast<std::size_t>(train.users.rows()));
  weighted_ = !train.users.values.empty() ||
              std::ranges::any_of(of_users, [](float w) { return w != 0.0F && w != 1.0F; });
  Interactions x = reorder(train, position, threads);
  columns_ = std::move(x.items);
  row_offsets_ = std::move(x.users.offsets);
  row_positions_.resize(static_cast<std::int64_t>(x.users.columns.size()));
  std::ranges::copy(x.users.columns, row_positions_.data());
  row_values_.resize(std::ssize(x.users.values));
  std::ranges::copy(x.users.values, row_values_.data());
  if (of_users.size() < weights.of_users.size()) read_features(train);
  const auto max_stored = static_cast<std::int64_t>(std::sqrt(max_table_bytes / 2.0));
  while (stored_ < std::min(items(), max_stored) && users_of(stored_) >= min_stored_users) ++stored_;
  table_.resize(stored_ * (stored_ - 1) / 2);
  std::vector<MarkedFeatures> marked(static_cast<std::size_t>(threads), MarkedFeatures(*this));
  const auto count_row = [&](int thread, std::int64_t i) {
    float* row = table_.data() + i * (i - 1) / 2;
    for_users(i, [&](float weight_of_item, const SparseRow& items) {
      for (std::size_t k = 0; k < items.columns.size() && items.columns[k] < i; ++k)
        row[items.columns[k]] += weight_of_item * items.value(k);
    });
    if (!has_features()) return;
    MarkedFeatures& own = marked[static_cast<std::size_t>(thread)];
    mark_features(i, own);
    for (std::int64_t other = 0; other < i; ++other) add_shared_features(other, own, row[other]);
  };
  if (progress != nullptr) progress->begin("counting the users of pairs of items", stored_, "items");
  parallel_for(threads, {0, stored_}, count_row, [&](std::int64_t done) {
    if (progress != nullptr) progress->update(done);
  });
  if (progress != nullptr) progress->end();
}

double Gram::inverse_scale(std::int64_t i) const {
  const double m = sum(i);
  const double variance = diagonal(i) - m * m / total_weight();
  return variance > 0.0 ? std::pow(variance, -0.375) : 0.0;
}

void Gram::read_features(const Interactions& train) {
  for (const std::int32_t item : order_) features_.append(train.features.view().row(item));
  const Interactions by_feature = make_interactions(features_, std::ssize(weights_.of_users) - users());
  const CsrView all = by_feature.items.view();
  for (std::int64_t feature = 0; feature < all.rows(); ++feature)
    holders_.append(all.row(feature).first(
        static_cast<std::size_t>(std::min(all.row_size(feature), max_items_of_feature))));
}

void Gram::mark_features(std::int64_t i, MarkedFeatures& marked) const {
  const CsrView features = features_.view();
  if (marked.position >= 0)
    for (const std::int32_t feature : features.row(marked.position))
      marked.weights[static_cast<std::size_t>(feature)] = 0.0F;
  for (const std::int32_t feature : features.row(i))
    marked.weights[static_cast<std::size_t>(feature)] = weight(users() + feature);
  marked.position = i;
}

void Gram::add_shared_features(std::int64_t i, const MarkedFeatures& marked, float& element) const {
  for (const std::int32_t feature : features_.view().row(i))
    element += marked.weights[static_cast<std::size_t>(feature)];
}

void Gram::read_row(std::int64_t i, Workspace& work) const {
  for (const std::int32_t other : work.nonzero) work.row[static_cast<std::size_t>(other)] = 0.0F;
  work.nonzero.clear();
  for_users(i, [&](float weight_of_item, const SparseRow& items) {
    for_elements(items, [&](std::int32_t other, float value) {
      const float product = weight_of_item * value;
      if (product == 0.0F) return;  // below the range of fp32
      float& element = work.row[static_cast<std::size_t>(other)];
      if (element == 0.0F) work.nonzero.push_back(other);
      element += product;
    });
  });
  if (!has_features()) return;
  mark_features(i, work.marked);
  for (const std::int32_t other : work.nonzero)
    add_shared_features(other, work.marked, work.row[static_cast<std::size_t>(other)]);
  for (const std::int32_t feature : features_.view().row(i))
    for (const std::int32_t other : holders_.view().row(feature)) complete_row(other, work);
}

void Gram::complete_row(std::int32_t other, Workspace& work) const {
  float& element = work.row[static_cast<std::size_t>(other)];
  if (element != 0.0F) return;
  add_shared_features(other, work.marked, element);
  if (element != 0.0F) work.nonzero.push_back(other);
}

void Gram::add_block(std::span<const std::int32_t> positions, device::SpdRegression& block,
                     Workspace& work) const {
  const auto size = static_cast<std::int64_t>(positions.size());
  const std::int64_t stored = std::ranges::lower_bound(positions, stored_) - positions.begin();
  for (std::int64_t b = 1; b < stored; ++b) {
    const float* row = table_row(positions[static_cast<std::size_t>(b)]);
    for (std::int64_t a = 0; a < b; ++a) block.at(a, b) += row[positions[static_cast<std::size_t>(a)]];
  }
  // The other pairs have an item that is not stored, and all their users are among its users.
  // The bits stay in the cache, which the slots of a large catalog exceed.
  const auto bit = [](std::int32_t position) { return std::uint64_t{1} << (position & 63); };
  for (std::int64_t a = 0; a < size; ++a) {
    const std::int32_t position = positions[static_cast<std::size_t>(a)];
    work.slots[static_cast<std::size_t>(position)] = static_cast<std::int32_t>(a);
    work.members[static_cast<std::size_t>(position / 64)] |= bit(position);
  }
  ++work.blocks;
  work.users.clear();
  for (const std::int32_t position : positions.subspan(static_cast<std::size_t>(stored)))
    for (const std::int32_t user : columns_.view().row(position))
      if (std::exchange(work.last_block[static_cast<std::size_t>(user)], work.blocks) != work.blocks)
        work.users.push_back(user);
  // Sums of different weights depend on their order; counts do not.
  if (weighted_) std::ranges::sort(work.users);
  // Each row is at a random place, so its offset and then its beginning are loaded early.
  const CsrView all = rows();
  constexpr std::size_t ahead = 8;
  const std::size_t count = work.users.size();
  for (std::size_t u = 0; u < count; ++u) {
    if (u + 2 * ahead < count)
      __builtin_prefetch(&all.offsets[static_cast<std::size_t>(work.users[u + 2 * ahead])]);
    if (u + ahead < count) __builtin_prefetch(all.row(work.users[u + ahead]).data());
    work.hits.clear();
    work.hit_values.clear();
    const SparseRow items = all.sparse_row(work.users[u]);
    for (std::size_t k = 0; k < items.columns.size(); ++k) {
      const std::int32_t item = items.columns[k];
      if ((work.members[static_cast<std::size_t>(item / 64)] & bit(item)) == 0) continue;
      work.hits.push_back(work.slots[static_cast<std::size_t>(item)]);
      if (!items.values.empty()) work.hit_values.push_back(items.values[k]);
    }
    const float own = weight(work.users[u]);
    for (std::size_t y = work.hits.size() - 1; y > 0 && work.hits[y] >= stored; --y) {
      if (work.hit_values.empty()) {
        for (std::size_t x = 0; x < y; ++x) block.at(work.hits[x], work.hits[y]) += own;
      } else {
        const float later = own * work.hit_values[y];
        for (std::size_t x = 0; x < y; ++x)
          block.at(work.hits[x], work.hits[y]) += later * work.hit_values[x];
      }
    }
  }
  for (const std::int32_t position : positions) work.members[static_cast<std::size_t>(position / 64)] = 0;
  if (!has_features()) return;
  for (std::int64_t b = std::max<std::int64_t>(1, stored); b < size; ++b) {
    mark_features(positions[static_cast<std::size_t>(b)], work.marked);
    for (std::int64_t a = 0; a < b; ++a)
      add_shared_features(positions[static_cast<std::size_t>(a)], work.marked, block.at(a, b));
  }
}

std::unique_ptr<EaseModel> solve_neighborhoods(const Interactions& train, const EaseValues& values,
                                               const Context& context, int threads) {
  comm::Communicator& ranks = context.communicator;
  const UserWeights weights = weigh_users(train, values.user_power, values.feature_weight);
  const double l2 = values.l2 * weights.mean;
  const Gram gram(train, weights, std::min(2147483648.0, free_memory_bytes() / ranks.local_size() / 8.0),
                  threads, &context.progress);
  ranks.activity().note_progress();
  std::vector<double> inverse_scale;
  for (std::int64_t i = 0; i < gram.items(); ++i) inverse_scale.push_back(gram.inverse_scale(i));

  std::vector<double> inverse(gram.order().size(), 0.0);  // P_jj of this rank's items
  std::vector<NeighborhoodSolver> solvers;
  for (int t = 0; t < threads; ++t)
    solvers.emplace_back(gram, inverse_scale, values.neighbors, l2, values.dropout);
  // About 1e12 operations between two looks at requests to stop, for which the ranks wait for each other.
  const double batch = std::min(4096.0, 1e12 / std::pow(static_cast<double>(values.neighbors), 3.0));
  const std::shared_ptr<SparseWeights> solved = solve_lists(
      ease_title(values), gram.order(), ListDirection::sources_of_target, static_cast<std::int64_t>(batch),
      context, threads, [&](int thread, std::int64_t position, NeighborList& list) {
        inverse[static_cast<std::size_t>(gram.order()[static_cast<std::size_t>(position)])] =
            solvers[static_cast<std::size_t>(thread)].solve(position, list);
      });
  if (!solved) return nullptr;
  ranks.all_reduce(std::span<double>(inverse));
  if (!std::ranges::all_of(inverse, [](double value) { return value > 0.0; })) throw_indefinite(values.l2);
  std::vector<math::LinearColumn> columns;
  for (std::size_t j = 0; j < inverse.size(); ++j) columns.push_back({l2, weights.of_items[j], inverse[j]});
  return std::make_unique<EaseModel>(std::move(*solved), values.dropout, std::move(columns), threads);
}

}  // namespace vaecf::models
