#include <vaecf/math/random_order.hpp>

#include <algorithm>

#include "math/user_metrics.hpp"

namespace vaecf::math {
namespace {

/// One user's targets in a random order of the candidates: each target has each rank with probability
/// 1 / candidates.
struct RandomOrder {
  double targets;
  double candidates;
  double cutoff;          ///< k of the metric's name
  std::int64_t k;         ///< at most the number of candidates
  std::int64_t possible;  ///< maximum number of targets in the list

  /// Returns the expected number of targets in the list.
  double hits() const { return targets * static_cast<double>(k) / candidates; }
  /// Returns the sum over the ranks of the list of term(rank, first), with the probability `first` that the
  /// first target is at this rank.
  template <class Term>
  double sum_over_ranks(const Term& term) const {
    double sum = 0.0;
    double none_before = 1.0;
    for (std::int64_t rank = 0; rank < k; ++rank) {
      const double first = none_before * targets / (candidates - static_cast<double>(rank));
      sum += term(static_cast<double>(rank), first);
      none_before -= first;
    }
    return sum;
  }
};

double expectation(const Ndcg&, const RandomOrder& of) {
  double gain = 0.0, ideal = 0.0;
  for (std::int64_t rank = 0; rank < of.k; ++rank) gain += discounted_gain(rank);
  for (std::int64_t rank = 0; rank < of.possible; ++rank) ideal += discounted_gain(rank);
  return gain * of.targets / of.candidates / ideal;
}
double expectation(const Recall&, const RandomOrder& of) {
  return of.hits() / static_cast<double>(of.possible);
}
double expectation(const RecallN&, const RandomOrder& of) {
  return of.hits() / of.targets;
}
double expectation(const Hit&, const RandomOrder& of) {
  return of.sum_over_ranks([](double, double first) { return first; });
}
double expectation(const Mrr&, const RandomOrder& of) {
  return of.sum_over_ranks([](double rank, double first) { return first / (rank + 1.0); });
}
double expectation(const Map&, const RandomOrder& of) {
  // If one target is at this rank, each of the others is before it with probability rank / (candidates - 1).
  const double others = of.targets > 1.0 ? (of.targets - 1.0) / (of.candidates - 1.0) : 0.0;
  const auto precision = [&](double rank, double) { return (1.0 + others * rank) / (rank + 1.0); };
  return of.sum_over_ranks(precision) * of.targets / of.candidates / static_cast<double>(of.possible);
}
double expectation(const Precision&, const RandomOrder& of) {
  return of.hits() / of.cutoff;
}

// New items have no train users, so that their propensities are equal.
double expectation(const UnbiasedRecall&, const RandomOrder& of) {
  return expectation(Recall{}, of);
}
double expectation(const UnbiasedNdcg&, const RandomOrder& of) {
  return expectation(Ndcg{}, of);
}

/// Returns the expectation of the metric at index `kind` of the table.
template <class... M>
double expectation_of_kind(MetricTable<M...>, int kind, const RandomOrder& of) {
  double value = 0.0;
  int number = 0;
  ((number++ == kind ? void(value = expectation(M{}, of)) : void()), ...);
  return value;
}

}  // namespace

double expectation_of_random_order(const Metric& metric, std::int64_t targets, std::int64_t candidates) {
  if (targets == 0) return 0.0;
  const std::int64_t k = std::min<std::int64_t>(metric.k, candidates);
  return expectation_of_kind(UserMetrics{}, metric.kind,
                             {static_cast<double>(targets), static_cast<double>(candidates),
                              static_cast<double>(metric.k), k, std::min(k, targets)});
}

}  // namespace vaecf::math
