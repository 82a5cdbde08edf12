#pragma once

#include <vaecf/base/parallel_for.hpp>
#include <vaecf/base/views.hpp>
#include <vaecf/models/model.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "models/contributions.hpp"

namespace vaecf::models {

/// Contributions in a linear model, which add up to the score.
class LinearReasons : public Reasons {
 public:
  explicit LinearReasons(int threads) : threads_(threads) {}

  Contributions contributions(CsrView seen, CsrView /*last*/, CsrView /*features*/,
                              std::span<const std::int32_t> listed, std::int64_t k) final {
    Contributions found{no_contributions(seen, k), std::vector<double>(seen.rows())};
    parallel_for(threads_, {0, seen.rows()}, [&](std::int64_t row) {
      const SparseRow history = seen.sparse_row(row);
      const double norm = norm_of(history);
      found.scales[row] = scale(history, norm);
      for (std::int64_t slot = 0; slot < k; ++slot) {
        const std::int32_t item = listed[row * k + slot];
        if (item < 0) continue;
        const std::span<float> to = contributions_of(found.values, seen, k, row, slot);
        for (std::size_t n = 0; n < to.size(); ++n)
          to[n] = contribution(history.columns[n], history.value(n), item, norm);
      }
    });
    return found;
  }

 private:
  /// Returns |x| of a user.
  static double norm_of(const SparseRow& history) {
    if (history.values.empty()) return std::sqrt(static_cast<double>(history.columns.size()));
    double squares = 0.0;
    for (const double value : history.values) squares += value * value;
    return std::sqrt(squares);
  }
  /// Returns the contribution of item `source`, whose value is `x`, of a user with |x| = `norm` to the score
  /// of `item`.
  virtual float contribution(std::int32_t source, float x, std::int32_t item, double norm) const = 0;
  /// Returns the element of Contributions::scales for a user with |x| = `norm`.
  virtual double scale(const SparseRow& history, double norm) const = 0;

  int threads_;
};

}  // namespace vaecf::models
