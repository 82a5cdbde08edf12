#pragma once

#include <vaecf/base/enum_names.hpp>
#include <vaecf/data/source_options.hpp>
#include <vaecf/data/weights.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace vaecf::data {

/// Split method. `liang2018` reproduces the split of the paper's notebook bit for bit; `given` keeps the
/// split of the source files. docs/SPLITS.md describes the others.
enum class SplitMethod { liang2018, random, stable, leave_one_out, ratio, given, time };
/// Selection of the targets of a user in the splits `leave_one_out` and `ratio`: a random sample, or the last
/// items by time.
enum class HeldOut { random, last };
/// Rule for a (user, item) pair with several events: the first or the last one counts, or their ratings are
/// added or their maximum is taken. See DuplicateFilter.
enum class DuplicateRule { first, last, sum, max };

/// Filter, split and feature options of `prepare`.
struct PrepareOptions {
  /// A number of held-out users: as `split` usually has.
  static constexpr std::int64_t automatic = -1;
  /// The minimum rating that all ratings reach.
  static constexpr double no_minimum = -std::numeric_limits<double>::infinity();

  DuplicateRule duplicates = DuplicateRule::first;  ///< applied before `min_rating`
  double min_rating = no_minimum;                   ///< inclusive
  /// Weights of the input's interactions, by the rating that `duplicates` gives a user and item. A pair whose
  /// rating gives no positive weight is dropped, after `min_rating`.
  WeightRule weights = WeightRule::none;
  std::int64_t min_user_items = 2;  ///< users with fewer items are dropped
  std::int64_t min_item_users = 0;  ///< items with fewer users are dropped
  bool repeat_filters = false;      ///< repeat both filters by count until nothing changes
  /// Number of validation users. `random` and `liang2018`: exactly so many, automatic: a tenth of the users,
  /// at least 1, at most 10,000. Other splits: at most so many, drawn by seed, automatic: all who can be held
  /// out; but `stable` has fractions instead. 0: no such part.
  std::int64_t validation_users = automatic;
  std::int64_t test_users = automatic;
  double validation_fraction = 0.05;  ///< fraction of the users, of the split `stable`
  double test_fraction = 0.05;
  double held_out_fraction = 0.2;  ///< fraction of a held-out user's items that become targets; `ratio`: of
                                   ///< every user's items, for validation and for test
  SplitMethod split = SplitMethod::random;
  HeldOut held_out = HeldOut::random;
  /// Cuts of the split `time` for validation and test: fractions of the events, increasing, in (0, 1).
  std::vector<double> time_quantiles{0.8, 0.9};
  std::vector<std::string> dates{};  ///< the two cuts as dates instead, if not empty
  std::uint32_t seed = 98765;
  /// Columns of the user table, by name or index from 0, that become features; empty: no features.
  std::vector<std::string> features{};
  /// Columns of the table of items that become features of items; empty: no such features. Otherwise the
  /// items of the table without a train event are items of the dataset, too, the *new items*.
  std::vector<std::string> item_features{};
  /// Fraction of the items with train events that are made the new items: their train events are removed. 0:
  /// all items of the table without a train event.
  double new_items = 0.0;
  std::int64_t feature_hashes = 2;   ///< FeatureColumn::hashes of every column
  std::int64_t feature_buckets = 0;  ///< FeatureColumn::buckets; 0: FeatureHashing::default_buckets()
  // The options below affect how the dataset is made and stored, not its contents.
  std::int64_t compression = 0;  ///< level of shuffle and deflate, 1 to 9; 0: none
  /// Approximate upper bound on the memory for events, in GiB; 0: unlimited. Events beyond it are stored in a
  /// temporary file next to the dataset. Memory for the data kept per user and item is not limited.
  double memory_gib = 0.0;
};

/// Returns whether `prepare` uses the key `key` of data.source or data.prepare, with this format and split.
bool prepare_uses(std::string_view key, const SourceOptions& source, const PrepareOptions& options);

}  // namespace vaecf::data

template <>
inline constexpr auto vaecf::enum_names<vaecf::data::SplitMethod> = vaecf::named<vaecf::data::SplitMethod>(
    "liang2018", "random", "stable", "leave_one_out", "ratio", "given", "time");
template <>
inline constexpr auto vaecf::enum_names<vaecf::data::DuplicateRule> =
    vaecf::named<vaecf::data::DuplicateRule>("first", "last", "sum", "max");
template <>
inline constexpr auto vaecf::enum_names<vaecf::data::HeldOut> = vaecf::named<vaecf::data::HeldOut>("random",
                                                                                                   "last");
