#pragma once

#include <vaecf/train/train_options.hpp>

#include <algorithm>
#include <cstdint>

namespace vaecf::train {

/// The weight of the KL term: beta = min(cap, t / T), t = what was done before the update. T is given in
/// updates, in users seen, or in epochs; T in epochs is T * steps_per_epoch updates, so that it follows the
/// batch size (with another batch and the same T in updates, the model is another one).
class Annealing {
 public:
  Annealing(const AnnealingOptions& options, std::int64_t steps_per_epoch)
      : cap_(options.cap),
        updates_(options.steps > 0.0 ? options.steps : options.epochs * static_cast<double>(steps_per_epoch)),
        users_(options.users) {}

  double beta(std::int64_t updates_done, std::int64_t users_seen) const {
    return std::min(cap_, users_ > 0.0 ? static_cast<double>(users_seen) / users_
                                       : static_cast<double>(updates_done) / updates_);
  }

  /// Returns true if a run of so many updates, and so many users before the last of them, ever uses
  /// beta = cap.
  bool reaches_cap(std::int64_t updates, std::int64_t users_before_last) const {
    return updates > 0 && beta(updates - 1, users_before_last) >= cap_;
  }
  double cap() const { return cap_; }

 private:
  double cap_;
  double updates_;  // T in updates, or
  double users_;    // T in users
};

}  // namespace vaecf::train
