#pragma once

#include <vaecf/base/views.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace vaecf::models {

/// The contributions of the items of some users to the scores of the k items that are listed for each user.
struct Contributions {
  /// (k, items of the user) for one user after the other; NaN where a contribution is not computed.
  std::vector<float> values;
  /// The magnitude to which rounding errors of each user's scores are relative, besides the sum of the
  /// absolute contributions. Empty: the contributions are approximate, and do not add up to the score.
  std::vector<double> scales;
};

/// Computes with one model what each of a user's items contributes to the score of a recommended item.
class Reasons {
 public:
  /// Number of items of a user that are left out in turn to explain the scores of a network.
  static constexpr std::int64_t max_left_out = 1000;

  virtual ~Reasons() = default;
  /// Returns the contributions of the items `seen`, of which networks leave out those in `last`; without rows
  /// of `last` these are the last max_left_out items by number. `features` has as many rows as `seen`;
  /// `listed` (users, k) contains -1 where no item is listed. For a model that a model-parallel group shares,
  /// collective there, with the same arguments.
  virtual Contributions contributions(CsrView seen, CsrView last, CsrView features,
                                      std::span<const std::int32_t> listed, std::int64_t k) = 0;
};

}  // namespace vaecf::models
