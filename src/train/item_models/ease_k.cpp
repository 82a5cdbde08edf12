#include "train/item_models/ease_k.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

#include "train/item_models/gram.hpp"
#include "train/item_models/parallel_for.hpp"
#include "train/run/host_info.hpp"

namespace vaecf::train {
namespace {

struct Candidate {
  double correlation;  // (G_ij - d_i d_j / U) / s_i, which orders the items as the correlation with j does
  std::int32_t item;
  std::int32_t position;
};

/// Finds the neighbors of items and solves for their weights, on one thread.
class NeighborhoodSolver {
 public:
  /// `inverse_scale` contains 1 / s_i of each position, or 0 if s_i is 0.
  NeighborhoodSolver(const Gram& gram, std::span<const double> inverse_scale, std::int64_t neighbors,
                     double l2, double dropout)
      : gram_(gram),
        inverse_scale_(inverse_scale),
        neighbors_(static_cast<std::size_t>(neighbors)),
        l2_(l2),
        diagonal_factor_(1.0 + dropout / (1.0 - dropout)),
        work_(gram) {}

  /// Writes the neighbors of the item at position j, and their weights; weights of 0 are left out. Returns
  /// false if the matrix is not positive definite.
  bool solve(std::int64_t j, std::int32_t* neighbors, float* weights) {
    gram_.read_row(j, work_);
    select(j);
    const auto last = static_cast<std::int64_t>(positions_.size());
    system_.reset(last + 1);
    gram_.add_block(positions_, system_, work_);
    for (std::int64_t a = 0; a < last; ++a) {
      const std::int32_t position = positions_[static_cast<std::size_t>(a)];
      system_.at(a, a) = diagonal(position);
      system_.at(a, last) = static_cast<float>(work_.counts[static_cast<std::size_t>(position)]);
    }
    system_.at(last, last) = diagonal(j);
    coefficients_.resize(positions_.size());
    if (!system_.solve(coefficients_)) return false;
    for (std::size_t a = 0; a < positions_.size(); ++a) {
      if (coefficients_[a] == 0.0F) continue;
      *neighbors++ = gram_.order()[static_cast<std::size_t>(positions_[a])];
      *weights++ = coefficients_[a];
    }
    return true;
  }

 private:
  float diagonal(std::int64_t position) const {
    return static_cast<float>(static_cast<double>(gram_.users_of(position)) * diagonal_factor_ + l2_);
  }

  /// Writes the neighbors of the item at position j, ascending, to positions_. work_ contains row j of G.
  void select(std::int64_t j) {
    candidates_.clear();
    const double expected = static_cast<double>(gram_.users_of(j)) / static_cast<double>(gram_.users());
    const auto add = [&](std::int32_t position) {
      const auto i = static_cast<std::size_t>(position);
      const double surplus = work_.counts[i] - expected * static_cast<double>(gram_.users_of(position));
      candidates_.push_back({surplus * inverse_scale_[i], gram_.order()[i], position});
    };
    for (const std::int32_t position : work_.nonzero)
      if (position != j) add(position);
    // Correlations with items that share no user with j are negative, and the less popular item comes first.
    std::size_t known = static_cast<std::size_t>(
        std::ranges::count_if(candidates_, [](const Candidate& c) { return c.correlation > 0.0; }));
    for (std::int64_t i = gram_.items() - 1; i >= 0 && known < neighbors_; --i) {
      if (gram_.users_of(i) == 0 || work_.counts[static_cast<std::size_t>(i)] > 0) continue;
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
  double diagonal_factor_;
  Gram::Workspace work_;
  std::vector<Candidate> candidates_;
  std::vector<std::int32_t> positions_;
  cpu::SpdRegression system_;
  std::vector<float> coefficients_;
};

}  // namespace

EaseK::EaseK(const Interactions& train, std::int64_t neighbors, double l2, double dropout,
             const RunContext& context, int threads) {
  comm::Communicator& ranks = context.communicator;
  const Gram gram(train, std::min(2147483648.0, free_memory_bytes() / ranks.local_size() / 8.0), threads,
                  &context.progress);
  ranks.activity().note_progress();
  const auto users = static_cast<double>(gram.users());
  std::vector<double> inverse_scale;
  for (std::int64_t i = 0; i < gram.items(); ++i) {
    const auto d = static_cast<double>(gram.users_of(i));
    const double variance = d - d * d / users;
    inverse_scale.push_back(variance > 0.0 ? std::pow(variance, -0.375) : 0.0);
  }

  NeighborLists own(gram.items(), neighbors, ranks.rank(), ranks.size());
  std::vector<NeighborhoodSolver> solvers;
  for (int t = 0; t < threads; ++t) solvers.emplace_back(gram, inverse_scale, neighbors, l2, dropout);
  std::atomic<bool> definite{true};
  context.progress.begin(
      format("EASE, {} items, {} neighbors, l2 {:g}, dropout {:g}", gram.items(), neighbors, l2, dropout),
      own.lists, "items");
  parallel_for_with_thread(
      threads, {0, own.lists},
      [&](int thread, std::int64_t list) {
        const auto slot = static_cast<std::size_t>(list * own.size);
        if (!solvers[static_cast<std::size_t>(thread)].solve(list * ranks.size() + ranks.rank(),
                                                             &own.neighbors[slot], &own.weights[slot]))
          definite = false;
      },
      [&](std::int64_t done) {
        ranks.activity().note_progress();
        context.progress.update(done);
      });
  context.progress.end();
  solvers.clear();
  if (ranks.all_reduce(std::int64_t{definite ? 0 : 1}) > 0) {
    throw InputError(
        format("model.ease.l2: with {:g} the matrix of EASE is not positive definite in fp32; "
               "use a larger value",
               l2));
  }
  weights_ = gather_weights(std::move(own), gram.order(), ListDirection::sources_of_target, ranks, threads);
}

}  // namespace vaecf::train
