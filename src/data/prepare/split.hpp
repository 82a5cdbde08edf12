#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/base/run_control.hpp>
#include <vaecf/base/views.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/prepare/filter.hpp"

namespace vaecf::data {

/// What is held out of one user.
struct HeldOutRow {
  std::vector<std::int32_t> targets;  ///< columns
  std::vector<std::int32_t> unknown;  ///< items of dropped events, which no train user has
  void clear() {
    targets.clear();
    unknown.clear();
  }
};

/// Writes the rows of a split to a dataset, and counts what it writes.
class SplitWriter {
 public:
  explicit SplitWriter(io::DatasetWriter& writer) : writer_(&writer) {}

  /// Must be called before the first row. `items`: items of the source.
  void start(bool weak, std::int64_t items);
  /// Adds the next user of train; sorts the columns.
  void train(std::span<std::int32_t> columns);
  /// Adds the next user of validation or of the test, with what the model sees of the user; sorts the
  /// columns. In weak splits that is the train row, which is not written again.
  void held_out(Part part, std::span<std::int32_t> fold_in, HeldOutRow& row);

  std::int64_t interactions() const;
  /// Adds what was counted.
  void report(PrepareReport& report, bool given, Log& log) const;

 private:
  struct HeldOutCount {
    std::string name;
    std::int64_t rows = 0;
    Tally fold_in;
    Tally targets;
    Tally unknown;
    std::int64_t without_target = 0;
    std::int64_t seen_targets = 0;  // among what the model sees
  };
  HeldOutCount& held_out_of(Part part) { return part == Part::validation ? validation_ : test_; }
  void report_part(const HeldOutCount& part, bool given, PrepareReport& report, Log& log) const;

  io::DatasetWriter* writer_;
  bool weak_ = false;
  Tally train_;
  HeldOutCount validation_;
  HeldOutCount test_;
};

/// Returns the users who have events, by ascending id. `events_of`: user -> events.
std::vector<std::int32_t> sorted_users(const std::vector<std::int32_t>& events_of, const io::IdList& ids);

/// Shuffles users, which are sorted by id, by Philox: the order of rows of all splits but `liang2018`.
std::vector<std::int32_t> shuffled_users(std::vector<std::int32_t> sorted, std::uint32_t seed);

/// The order of a strong split.
struct StrongOrder {
  std::vector<std::int32_t> users;   ///< row -> user
  std::vector<std::int64_t> visits;  ///< rows in the order in which their targets are drawn
};

/// `sorted`: users by ascending id. `liang2018` permutes them by numpy's generator, `random` by Philox.
StrongOrder strong_order(const std::vector<std::int32_t>& sorted, const PrepareOptions& options);

/// Draws which events of the users in rows `part` are targets. The n events of the k-th row of the part are
/// elements first[k] to first[k + 1] of `is_target`, in file order. `liang2018`, bit for bit as the notebook
/// does: floor(fraction * n) of at least 5, by numpy's generator, which is seeded for each part. `random`:
/// floor(fraction * n) of at least 2, but at least one; each user's draw depends on the row only.
void draw_targets(const StrongOrder& order, Range part, const PrepareOptions& options,
                  std::span<const std::int64_t> first, std::vector<bool>& is_target);

/// Draws what is held out of each user's n events in the splits `leave_one_out` and `ratio`: 1 for the test
/// if n >= 2 and 1 for validation if n >= 3; or max(1, floor(fraction * n)) each under the same conditions,
/// but one event at least stays.
class WeakDraw {
 public:
  explicit WeakDraw(const PrepareOptions& options) : options_(&options) {}
  /// Sets the part of each event of the user in row `row`; events are in file order. They are drawn by
  /// Philox, or they are the last in time, equal ones by file order.
  void draw(std::int64_t row, std::span<Event> events);

 private:
  std::int64_t held_out_count(std::int64_t events) const;

  const PrepareOptions* options_;
  std::vector<std::int32_t> order_;
};

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
