#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/split.hpp"

namespace vaecf::data {

/// Counts events, users and distinct items, for a line of the report.
class Tally {
 public:
  explicit Tally(std::int64_t items = 0) : seen_(static_cast<std::size_t>(items), false) {}
  void add(std::int32_t item) {
    ++events_;
    if (seen_[static_cast<std::size_t>(item)]) return;
    seen_[static_cast<std::size_t>(item)] = true;
    ++items_;
  }
  void add_user() { ++users_; }
  /// All items of one user.
  void add_row(std::span<const std::int32_t> items) {
    for (const std::int32_t item : items) add(item);
    users_ += items.empty() ? 0 : 1;
  }
  std::int64_t events() const { return events_; }
  StepCount step(std::string name) const { return {std::move(name), events_, users_, items_}; }

 private:
  std::vector<bool> seen_;
  std::int64_t events_ = 0;
  std::int64_t users_ = 0;
  std::int64_t items_ = 0;
};

/// Writes the rows of a split to a dataset, wherever they come from, and counts what it writes.
class SplitWriter {
 public:
  explicit SplitWriter(io::DatasetWriter& writer) : writer_(&writer) {}

  /// `shape`: a split whose rows are still to come.
  void start(const Split& shape);
  /// The next user of train; sorts the columns.
  void train(std::span<std::int32_t> columns);
  /// The next user of validation or of the test, with what the model sees of them; sorts both. Of weak splits
  /// that is the train row, which is not written again.
  void held_out(Part part, std::span<std::int32_t> fold_in, std::span<std::int32_t> targets);
  /// Events of a part that were dropped, since no train user has the item.
  void set_unknown(Part part, const StepCount& count) { held_out_of(part).unknown = count; }

  std::int64_t interactions() const;
  /// Adds what was counted.
  void report(PrepareReport& report, bool given, Log& log) const;

 private:
  struct HeldOutCount {
    std::string name;
    std::int64_t rows = 0;
    Tally fold_in;
    Tally targets;
    StepCount unknown;
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

/// All rows of a split that is in memory.
void write_rows(Split& split, SplitWriter& to);

}  // namespace vaecf::data
