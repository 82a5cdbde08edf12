#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/base/views.hpp>
#include <vaecf/data/prepare_report.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/prepare/event_store.hpp"
#include "data/prepare/split_counter.hpp"

namespace vaecf::data {

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

}  // namespace vaecf::data
