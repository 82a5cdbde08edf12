#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/train/annealing.hpp>

#include <algorithm>
#include <cmath>

namespace vaecf::train {

Annealing::Annealing(const AnnealingOptions& options, std::int64_t steps_per_epoch) : cap_(options.cap) {
  if (!std::isfinite(cap_) || cap_ < 0.0) {
    throw InputError(format("train.annealing.cap: {} is not a weight of the KL term: give 0 or more", cap_));
  }
  int given = 0;
  for (const double amount : {options.steps, options.epochs, options.users}) {
    if (!std::isfinite(amount) || amount < 0.0) {
      throw InputError(format("train.annealing: {} is not an amount: give a number above 0", amount));
    }
    given += amount > 0.0 ? 1 : 0;
  }
  if (given != 1) {
    throw InputError(format(
        "train.annealing: {} of steps, epochs and users are above 0: give exactly one of them", given));
  }
  users_ = options.users;
  updates_ = options.steps > 0.0 ? options.steps : options.epochs * static_cast<double>(steps_per_epoch);
}

double Annealing::beta(std::int64_t updates_done, std::int64_t users_seen) const {
  const double share =
      users_ > 0.0 ? static_cast<double>(users_seen) / users_ : static_cast<double>(updates_done) / updates_;
  return std::min(cap_, share);
}

bool Annealing::reaches_cap(std::int64_t updates, std::int64_t users_before_last) const {
  return updates > 0 && beta(updates - 1, users_before_last) >= cap_;
}

}  // namespace vaecf::train
