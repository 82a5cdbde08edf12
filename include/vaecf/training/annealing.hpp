#pragma once

#include <vaecf/config/training_config.hpp>

#include <algorithm>
#include <cstdint>

namespace vaecf::training {

/// The weight of the KL term (KL annealing): beta = min(cap, t / T), where t is the progress before the
/// update. T is given in updates, in users seen, or in epochs. T epochs are T * steps_per_epoch updates, so
/// that the schedule does not depend on the batch size; with T in updates it does.
class Annealing {
 public:
  /// Exactly one of options.steps, options.epochs and options.users must be above 0.
  Annealing(const config::AnnealingOptions& options, std::int64_t steps_per_epoch)
      : cap_(options.cap),
        updates_(options.steps > 0.0 ? options.steps : options.epochs * static_cast<double>(steps_per_epoch)),
        users_(options.users) {}

  /// Returns beta for the update after `updates_done` updates over `users_seen` users.
  double beta(std::int64_t updates_done, std::int64_t users_seen) const {
    return std::min(cap_, users_ > 0.0 ? static_cast<double>(users_seen) / users_
                                       : static_cast<double>(updates_done) / updates_);
  }

  /// Returns whether a run of `updates` updates, with `users_before_last` users before the last one, uses
  /// beta = cap at least once.
  bool reaches_cap(std::int64_t updates, std::int64_t users_before_last) const {
    return updates > 0 && beta(updates - 1, users_before_last) >= cap_;
  }
  double cap() const { return cap_; }

 private:
  double cap_;
  double updates_;  // T in updates; used if users_ is 0
  double users_;    // T in users, or 0
};

}  // namespace vaecf::training
