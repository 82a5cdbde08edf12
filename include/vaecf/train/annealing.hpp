#pragma once

#include <vaecf/train/train_options.hpp>

#include <cstdint>

namespace vaecf::train {

/// The weight of the KL term: beta = min(cap, t / T), t = what was done before the update. T is given in
/// updates, in users seen, or in epochs; T in epochs is T * steps_per_epoch updates, so that it follows the
/// batch size (with another batch and the same T in updates, the model is another one).
class Annealing {
 public:
  /// InputError (train.annealing.*) unless exactly one of steps, epochs, users is above 0 and 0 <= cap.
  Annealing(const AnnealingOptions& options, std::int64_t steps_per_epoch);

  double beta(std::int64_t updates_done, std::int64_t users_seen) const;

  /// Whether a run of so many updates, and so many users before the last of them, ever uses beta = cap.
  bool reaches_cap(std::int64_t updates, std::int64_t users_before_last) const;
  double cap() const { return cap_; }

 private:
  double cap_;
  double updates_ = 0.0;  // T in updates, or
  double users_ = 0.0;    // T in users
};

}  // namespace vaecf::train
