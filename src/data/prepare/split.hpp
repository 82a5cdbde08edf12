#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/base/views.hpp>
#include <vaecf/data/prepare.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/prepare/event_store.hpp"
#include "data/source/ratings_builder.hpp"

namespace vaecf::data {

class DuplicateFilter;

/// Counts events, users and distinct items for one row of the report.
class SplitCounter {
 public:
  explicit SplitCounter(std::int64_t items = 0) : seen_(items, 0) {}
  /// Adds all items of one user.
  void add_row(std::span<const std::int32_t> items) {
    for (const std::int32_t item : items) add(item);
    users_ += items.empty() ? 0 : 1;
  }
  /// Adds all events of one user.
  void add_row(std::span<const Event> events) {
    for (const Event& event : events) add(event.item);
    users_ += events.empty() ? 0 : 1;
  }
  std::int64_t events() const { return events_; }
  /// Returns the counts as the report row `name`.
  StageCounts stage(std::string name) const { return {std::move(name), events_, users_, items_}; }

 private:
  void add(std::int32_t item) {
    std::uint8_t& seen = seen_[item];
    ++events_;
    items_ += 1 - seen;
    seen = 1;
  }

  std::vector<std::uint8_t> seen_;
  std::int64_t events_ = 0;
  std::int64_t users_ = 0;
  std::int64_t items_ = 0;
};

/// Filters that run before the split, in this order: one event of each (user, item) pair (DuplicateFilter),
/// positive events, with weights those that have one, items with at least `min_item_users` users, users with
/// at least `min_user_items` items. Each runs once, as in the paper, so some items may end below their limit;
/// with `repeat_filters` the last two are repeated until nothing changes. An already split source (`given`)
/// is not filtered by count. Memory is proportional to the number of users and items.
class Filter {
 public:
  /// Reads the events once or twice, or once more per repetition, and adds the counts of each stage to
  /// `report`. Throws InputError if a stage leaves no events, or if an event is repeated in strict mode.
  Filter(RawRatings& ratings, const PrepareOptions& options, PrepareReport& report, Progress& progress);

  /// Returns the number of kept events per user.
  const std::vector<std::int32_t>& events_of() const { return events_of_; }
  /// Returns the range from the first to the last user with events of `part`, for an already split source.
  Range users_of(SplitPart part) const { return users_of_part_[static_cast<std::size_t>(part)]; }
  /// Sets the cuts of the split `time` for the following calls: DuplicateFilter then combines the ratings
  /// before them. Which events count does not change.
  void cut_at(const std::array<double, 2>& times) { cuts_ = times; }
  /// Calls use(events) for each kept user, with the user's kept events in their defined order.
  void each_user(const EventStore::Pass& pass, const EventStore::Use& use);
  /// Calls each_user() and empties the event store.
  void take_users(const EventStore::Use& use) { each_user({.label = "splitting", .last = true}, use); }

 private:
  void count_positive(PrepareReport& report);
  void count_on_kept_items(PrepareReport& report);
  void count_user(std::span<const Event> events);
  void repeat_counts(PrepareReport& report);
  std::span<Event> keep(std::span<Event> events, DuplicateFilter& duplicates) const;
  void add_stage(const SplitCounter& tally, const std::string& stage, std::string_view advice,
                 PrepareReport& report) const;

  RawRatings* ratings_;
  Progress* progress_;
  const PrepareOptions* options_;
  std::int64_t min_user_items_;
  std::int64_t min_item_users_;
  std::int64_t items_;
  std::vector<std::int32_t> item_order_;  // sort position of each item, if events are ordered by item
  std::vector<std::int32_t> events_of_;
  std::vector<std::int32_t> users_of_;  // item -> number of positive events; 0: dropped by a repetition
  std::array<Range, 5> users_of_part_{};
  std::array<double, 2> cuts_;
  SplitCounter kept_;
};

/// Item of a user's input.
struct Interaction {
  std::int32_t column = 0;
  double weight = 1.0;  ///< before the division by the mean of the row
};

/// Held-out items of one user.
struct HeldOutRow {
  std::vector<std::int32_t> targets;  ///< columns of the items to predict
  std::vector<std::int32_t> unknown;  ///< items of dropped events: no train user has them
  std::vector<std::int32_t>
      unknown_fold_in;  ///< such items, also new ones, of fold-in events of the split `time`
  void clear() {
    targets.clear();
    unknown.clear();
    unknown_fold_in.clear();
  }
};

/// Writes the rows of a split to a dataset and counts them for the report.
class SplitWriter {
 public:
  SplitWriter(io::DatasetWriter& writer, bool weighted) : writer_(&writer), weighted_(weighted) {}

  /// Must be called before the first row. `items`: number of items of the source; columns from `train_items`
  /// on are new items.
  void start(bool weak, std::int64_t items, std::int64_t train_items);
  /// Adds the next train user; sorts `items`. `removed`: the user's events on new items.
  void train(std::span<Interaction> items, std::span<const std::int32_t> removed);
  /// Adds the next validation or test user, with the fold-in items; sorts the columns. In weak splits the
  /// fold-in items are the train row and are not written again.
  void held_out(SplitPart part, std::span<Interaction> fold_in, HeldOutRow& row);

  /// Returns the number of interactions written.
  std::int64_t interactions() const;
  /// Adds the counts to `report` and logs warnings.
  void report(PrepareReport& report, bool given, Log& log) const;

 private:
  struct HeldOutCount {
    std::string name;
    std::int64_t rows = 0;
    SplitCounter fold_in;
    SplitCounter targets;
    SplitCounter new_targets;  ///< targets that are new items
    SplitCounter unknown;
    SplitCounter unknown_fold_in;
    std::int64_t without_target = 0;
    std::int64_t seen_targets = 0;  // targets that are also in the fold-in items
  };
  /// Sorts the items of an input by column and returns them as a row, valid until the next call.
  SparseRow sorted(std::span<Interaction> items);
  HeldOutCount& held_out_of(SplitPart part) { return part == SplitPart::validation ? validation_ : test_; }
  void report_part(const HeldOutCount& part, bool given, PrepareReport& report, Log& log) const;

  io::DatasetWriter* writer_;
  bool weighted_;
  bool weak_ = false;
  std::int64_t train_items_ = 0;
  SplitCounter train_;
  SplitCounter removed_;
  HeldOutCount validation_;
  HeldOutCount test_;
  std::vector<std::int32_t> columns_;  // of the row being written
  std::vector<double> weights_;
  std::vector<float> divided_;
};

/// Returns the users with events, by ascending id. `events_of`: number of events per user.
std::vector<std::int32_t> sorted_users(const std::vector<std::int32_t>& events_of, const io::IdList& ids);

/// Returns a Philox shuffle of users sorted by id: the row order of all splits except `liang2018`.
std::vector<std::int32_t> shuffled_users(std::vector<std::int32_t> sorted, std::uint32_t seed);

/// Row order of a strong split.
struct StrongOrder {
  std::vector<std::int32_t> users;       ///< user of each row
  std::vector<std::int64_t> pick_order;  ///< rows in the order in which targets are sampled
};

/// Returns the order of the users `sorted`, which are sorted by id: permuted with NumPy's generator for
/// `liang2018`, with Philox for `random`.
StrongOrder strong_order(const std::vector<std::int32_t>& sorted, const PrepareOptions& options);

/// Samples the target events of the users in the rows `part`. The n events of the k-th row of the part are
/// elements [first[k], first[k + 1]) of `is_target`, in file order. `liang2018` samples floor(fraction * n)
/// of at least 5 events with NumPy's generator, seeded for each part, bit for bit like the notebook. `random`
/// samples max(1, floor(fraction * n)) of at least 2 events, and leaves at least one; the result of a user
/// depends only on the row.
void draw_targets(const StrongOrder& order, Range part, const PrepareOptions& options,
                  std::span<const std::int64_t> first, std::vector<bool>& is_target);

/// Sets the part of each event of the user in row `row` in the splits `leave_one_out` and `ratio`; events are
/// in file order. Held-out events are sampled with Philox, or are the latest ones, with ties in file order. A
/// user with n events gets test events if n >= 2, and validation events if n >= 3, or if n >= 2 without a
/// test part. Each part gets 1 event (`leave_one_out`) or max(1, floor(fraction * n)) events (`ratio`); at
/// least one event remains in train.
void draw_weak_split(std::int64_t row, std::span<Event> events, const PrepareOptions& options);

/// The users of the split `stable`: train, then validation, then test.
struct StableOrder {
  std::vector<std::int32_t> users;
  std::array<std::int64_t, 3> counts{};  ///< number of users of each part
};

/// Divides `users`, indices of `ids`, by h = XXH64(id as text, seed) / 2^64: below `test_fraction` a test
/// user, below the sum of both fractions a validation user, else a train user. So the part of a user depends
/// on nothing but the id, the seed and the fractions. Users of a part keep their order. Throws InputError if
/// no user is left to train on.
StableOrder stable_order(std::span<const std::int32_t> users, const io::IdList& ids,
                         const PrepareOptions& options);

/// Returns which of the n items of a held-out user are targets: the max(1, floor(held_out_fraction n)) with
/// the smallest XXH64(user id, zero byte, item id; seed) if n >= 2, else none. `items` are ids as text.
std::vector<bool> stable_targets(const std::string& user, std::span<const std::string> items,
                                 const PrepareOptions& options);

/// Draws floor(`options.new_items` n) of the n items `items` with Philox. The order of `items` has no
/// influence.
std::vector<std::int32_t> draw_new_items(std::span<const std::int32_t> items, const io::IdList& ids,
                                         const PrepareOptions& options);

/// Orders `items` by XXH64 of their ids as text (seed 0). So the position of a new item is not related to
/// its users, unlike its position in the source.
void sort_new_items(std::span<std::int32_t> items, const io::IdList& ids);

/// Rows of the split `time`. Train: events before the first cut. Validation: users with events before the
/// first cut, the fold-in, and between the cuts, the targets. Test: the same before and from the second cut.
/// An event at the time of a cut is after it. A user has one row in each part that contains the user, in the
/// order of shuffled_users(); validation and test are its first `validation_users` and `test_users` of those
/// users, or all for 0.
class TimeSplit {
 public:
  /// Reads the kept events once for dates and five times for quantiles. Adds the counts of events before,
  /// between and after the cuts to `report`. Throws InputError if all events have the same time, or if one of
  /// the three parts has no users. Memory is proportional to users and items.
  TimeSplit(const RawRatings& ratings, Filter& filter, const PrepareOptions& options, PrepareReport& report);

  /// Returns the user of each row: train, then validation, then test.
  const std::vector<std::int32_t>& users() const { return users_; }
  /// Returns the rows of train, validation and test.
  const std::array<Range, 3>& parts() const { return parts_; }
  const std::array<double, 2>& cuts() const { return cuts_; }
  bool is_train(const Event& event) const { return event.time < cuts_[0]; }
  /// Adds `event` to `rows` once for each row that contains it, with that row as its user, with its part and
  /// with the rating before the end of the part.
  void add(Event event, EventStore& rows) const;

 private:
  std::array<double, 2> cuts_{};
  std::vector<std::int32_t> users_;
  std::array<Range, 3> parts_{};
  std::array<std::vector<std::int32_t>, 3> row_of_;  // row of each user in each part; -1: none
};

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
