#pragma once

#include <vaecf/base/progress.hpp>

#include <cstdint>
#include <vector>

#include "data/filter.hpp"
#include "data/split_writer.hpp"

namespace vaecf::data {

/// Strong generalization: users cut into train, validation and test by row, each user in one only.
/// Weak: all users are in train, and in the same order in validation and test, if there are such parts.
struct Split {
  bool weak = false;  ///< fold-in is /train, and not repeated in the parts
  /// Row -> user of the events. Strong: train, then validation, then test.
  std::vector<std::int32_t> users;
  std::vector<std::int32_t> items;  ///< column -> item of the events
  std::int64_t train_rows = 0;
  std::int64_t validation_rows = 0;
  std::int64_t test_rows = 0;
};

/// Makes the split that `options` name, and writes its rows `to` the dataset. Memory grows with users and
/// items, and with a bit for each held-out event of a strong split. `liang2018`: Liang et al., WWW 2018, bit
/// for bit that of the notebook. `random`, `leave_one_out`, `ratio`: our own, drawn by Philox. Items of all
/// these are those of train, numbered by first appearance there, and held-out events on others are dropped.
/// `given`: the source's own, strong for pro_sg, whose rows and columns keep their order, else weak with all
/// items. Throws InputError if validation and test leave no user to train on, and for a split of the source
/// without a train part, without anything held out, or with a user in several parts (pro_sg).
Split make_split(RawRatings& ratings, Filter& filter, const PrepareOptions& options, SplitWriter& to,
                 Progress& progress);

}  // namespace vaecf::data
