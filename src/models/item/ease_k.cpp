#include <vaecf/base/format.hpp>
#include <vaecf/base/host.hpp>
#include <vaecf/base/parallel_for.hpp>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "models/item/ease.hpp"

namespace vaecf::models {
namespace {

struct Candidate {
  double correlation;  // (G_ij - g_i g_j / S) / s_i, which orders the items as the correlation with j does
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
    const double expected = gram_.diagonal(j) / gram_.total_weight();
    const auto add = [&](std::int32_t position) {
      const auto i = static_cast<std::size_t>(position);
      const double surplus = static_cast<double>(work_.row[i]) - expected * gram_.diagonal(position);
      candidates_.push_back({surplus * inverse_scale_[i], gram_.order()[i], position});
    };
    for (const std::int32_t position : work_.nonzero)
      if (position != j) add(position);
    // Correlations with items that share no user with j are negative, and the item with the smaller G_ii
    // comes first.
    std::size_t known = static_cast<std::size_t>(
        std::ranges::count_if(candidates_, [](const Candidate& c) { return c.correlation > 0.0; }));
    for (std::int64_t i = gram_.items() - 1; i >= 0 && known < neighbors_; --i) {
      if (gram_.users_of(i) == 0 || work_.row[static_cast<std::size_t>(i)] > 0.0F) continue;
      add(static_cast<std::int32_t>(i));
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

std::unique_ptr<EaseModel> solve_neighborhoods(const Interactions& train, const EaseValues& values,
                                               const run::RunContext& context, int threads) {
  comm::Communicator& ranks = context.communicator;
  const UserWeights weights = weigh_users(train, values.user_power);
  const double l2 = values.l2 * weights.mean;
  const Gram gram(train, weights, std::min(2147483648.0, free_memory_bytes() / ranks.local_size() / 8.0),
                  threads, &context.progress);
  ranks.activity().note_progress();
  std::vector<double> inverse_scale;
  for (std::int64_t i = 0; i < gram.items(); ++i) {
    const double g = gram.diagonal(i);
    const double variance = g - g * g / gram.total_weight();
    inverse_scale.push_back(variance > 0.0 ? std::pow(variance, -0.375) : 0.0);
  }

  std::vector<NeighborList> own(static_cast<std::size_t>(lists_of(gram.items(), ranks.rank(), ranks.size())));
  std::vector<double> inverse(gram.order().size(), 0.0);  // P_jj of this rank's items
  std::vector<NeighborhoodSolver> solvers;
  for (int t = 0; t < threads; ++t)
    solvers.emplace_back(gram, inverse_scale, values.neighbors, l2, values.dropout);
  context.progress.begin(format("{}, {} items", ease_title(values), gram.items()), std::ssize(own), "items");
  // About 1e12 operations between two looks at requests to stop, for which the ranks wait for each other.
  const double batch = std::min(4096.0, 1e12 / std::pow(static_cast<double>(values.neighbors), 3.0));
  const std::int64_t items_per_batch = ranks.all_reduce(
      std::max(std::int64_t{16} * threads, static_cast<std::int64_t>(batch)), comm::Reduction::max);
  bool stopped = false;
  const std::int64_t batches_end = lists_of(gram.items(), 0, ranks.size());  // equal on all ranks
  for (std::int64_t begin = 0; begin < batches_end && !stopped; begin += items_per_batch) {
    const Range some{begin, std::min(std::ssize(own), begin + items_per_batch)};
    parallel_for(
        threads, some,
        [&](int thread, std::int64_t list) {
          const std::int64_t position = list * ranks.size() + ranks.rank();
          inverse[static_cast<std::size_t>(gram.order()[static_cast<std::size_t>(position)])] =
              solvers[static_cast<std::size_t>(thread)].solve(position, own[static_cast<std::size_t>(list)]);
        },
        [&](std::int64_t done) {
          ranks.activity().note_progress();
          context.progress.update(begin + done);
        });
    stopped = context.stop_requested();
  }
  context.progress.end();
  solvers.clear();
  if (stopped) return nullptr;
  ranks.all_reduce(std::span<double>(inverse));
  if (!std::ranges::all_of(inverse, [](double value) { return value > 0.0; })) throw_indefinite(values.l2);
  std::vector<math::LinearColumn> columns;
  for (std::size_t j = 0; j < inverse.size(); ++j) columns.push_back({l2, weights.of_items[j], inverse[j]});
  return std::make_unique<EaseModel>(
      gather_weights(std::move(own), gram.order(), ListDirection::sources_of_target, ranks, threads),
      values.dropout, std::move(columns));
}

}  // namespace vaecf::models
