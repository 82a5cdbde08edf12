#pragma once

#include <vaecf/base/log.hpp>

#include <cstdint>
#include <string>

namespace vaecf::data {

/// Options of a synthetic dataset with latent structure and a long tail. Every user mixes a few tastes, every
/// item belongs to one or two, and popularity follows a power law, so that a trained model clearly
/// outperforms recommending popular items. A fifth of a held-out user's items are targets. Users are sampled
/// independently, and equal options give an identical file.
struct SynthesizeOptions {
  std::int64_t users = 10000;  ///< including held-out users
  std::int64_t items = 2000;
  double interactions_per_user = 50.0;  ///< mean; 5 plus a log-normal value per user, at most items / 2
  std::uint64_t seed = 98765;
  std::int64_t validation_users = -1;  ///< -1: a tenth of the users, at most 10,000
  std::int64_t test_users = -1;
  int tastes = 32;  ///< number of latent tastes; limited to items / 40
  /// Number of user attributes (country, age, occupation, gender, ..), each a noisy function of one of the
  /// user's tastes. The interactions do not depend on it.
  int user_columns = 0;
  std::int64_t compression = 0;  ///< level of shuffle and deflate, 1 to 9; 0: none
  bool replace = false;          ///< also replace a file that is not an intact dataset of this program
};

/// Writes the dataset to `output` atomically and in bounded memory. Throws InputError if a size is out of
/// range, or as io::check_replaceable() does; throws RunError if the disk is full or not writable.
void synthesize(const SynthesizeOptions& options, const std::string& output, Log& log, Progress& progress);

}  // namespace vaecf::data
