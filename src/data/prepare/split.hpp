#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/data/prepare_options.hpp>
#include <vaecf/data/prepare_report.hpp>

#include <cstdint>
#include <vector>

#include "data/prepare/filter.hpp"
#include "data/prepare/split_writer.hpp"
#include "data/source/raw_ratings.hpp"

namespace vaecf::data {

/// Result of a split. Strong generalization: every user is in exactly one of train, validation and test, by
/// row. Weak: all users are in train, and in the same order in the validation and test parts, if any. The
/// split `time` is stored like a strong one, but a user may be in several parts.
struct Split {
  bool weak = false;  ///< fold-in is /train and is not stored again
  /// User of each row. Not weak: train, then validation, then test.
  std::vector<std::int32_t> users;
  std::vector<std::int32_t> items;  ///< item of each column; the last ones are new items
  std::int64_t train_items = 0;     ///< number of columns before the new items
  std::int64_t train_rows = 0;
  std::int64_t validation_rows = 0;
  std::int64_t test_rows = 0;
};

/// Items of a source with a table of items, for the split.
struct ItemTable {
  std::int64_t source_items = 0;  ///< number of items in the ratings; the others follow them
  std::vector<bool> known{};      ///< true for the items of the table; empty: there is no table
};

/// Splits the events by the method of `options` and writes the rows to the dataset. Memory is proportional to
/// users and items, plus one bit per held-out event of `liang2018` and `random`. `liang2018` follows Liang et
/// al., WWW 2018, bit for bit like the notebook. `random`, `leave_one_out` and `ratio` are sampled with
/// Philox, `stable` is by hashes (StableOrder), and `time` is TimeSplit. For these methods the columns
/// are the items of train in order of first appearance, and held-out events on other items are dropped.
/// `given` keeps the split of the source: strong for pro_sg, whose rows and columns keep their order,
/// otherwise weak with all items. With a table of items, its items without a train event are the last columns
/// (sort_new_items()), or only those of PrepareOptions::new_items, whose train and fold-in events are
/// removed; `given` then counts all items without a train event among them. Held-out events on them are
/// targets; in `liang2018`, `random` and `stable` these are all events of a held-out user on them. Throws
/// InputError if no user is left to train on. For `given`, also throws it if the source has no train part or
/// no held-out events, or for pro_sg if a user is in several parts; for `time`, if a part has no users.
/// `report` receives the counts around the cuts of `time`.
Split make_split(RawRatings& ratings, Filter& filter, const ItemTable& table, const PrepareOptions& options,
                 SplitWriter& to, PrepareReport& report, Progress& progress);

}  // namespace vaecf::data
