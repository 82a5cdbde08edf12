#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/base/run_control.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <cstdint>
#include <string>

namespace vaecf::data {

/// A made-up data set with real latent structure and a long tail: every user mixes a few tastes, every item
/// belongs to some, popularity falls like a power law. So a trained model beats popularity clearly. A fifth
/// of a held-out user's items are targets. The same file for the same options, users drawn independently.
struct SynthesizeOptions {
  std::int64_t users = 10000;  ///< all users, held-out ones included
  std::int64_t items = 2000;
  double interactions_per_user = 50.0;  ///< mean; log-normal spread, from 5 to items / 2
  std::uint64_t seed = 98765;
  std::int64_t validation_users = -1;  ///< -1: a tenth of the users, at most 10,000
  std::int64_t test_users = -1;
  int tastes = 32;  ///< number of latent groups; at most items / 40 are made
  /// What is told of each user (country, age, occupation, gender, ..), each column a noisy sign of one of the
  /// user's tastes. The interactions are the same with and without.
  int user_columns = 0;
  std::int64_t compression = 0;  ///< of matrices: 0 none, 1 to 9 shuffle and deflate of this level
  bool replace = false;          ///< replace a file that is not an intact dataset of ours
};

/// Streams to `output` in bounded memory. Throws InputError for sizes that cannot be, and as
/// io::check_replaceable().
void synthesize(const SynthesizeOptions& options, const std::string& output, Log& log, Progress& progress);

}  // namespace vaecf::data
