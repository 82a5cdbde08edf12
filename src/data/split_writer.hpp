#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/filter.hpp"

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

}  // namespace vaecf::data
