#include <algorithm>

#include "data/prepare/split.hpp"

namespace vaecf::data {

void SplitWriter::start(bool weak, std::int64_t items, std::int64_t train_items) {
  weak_ = weak;
  train_items_ = train_items;
  const SplitCounter none(items);
  train_ = removed_ = none;
  validation_ = {"validation", 0, none, none, none, none, none, 0, 0};
  test_ = {"test", 0, none, none, none, none, none, 0, 0};
}

void SplitWriter::train(std::span<std::int32_t> columns, std::span<const std::int32_t> removed) {
  std::sort(columns.begin(), columns.end());
  train_.add_row(columns);
  removed_.add_row(removed);
  writer_->append_row("train", columns);
}

void SplitWriter::held_out(SplitPart which, std::span<std::int32_t> fold_in, HeldOutRow& row) {
  HeldOutCount& part = held_out_of(which);
  std::vector<std::int32_t>& targets = row.targets;
  std::sort(fold_in.begin(), fold_in.end());
  std::sort(targets.begin(), targets.end());
  for (const std::int32_t target : targets)
    part.seen_targets += std::binary_search(fold_in.begin(), fold_in.end(), target) ? 1 : 0;
  ++part.rows;
  part.without_target += targets.empty() ? 1 : 0;
  part.targets.add_row(targets);
  part.new_targets.add_row(std::span(std::ranges::lower_bound(targets, train_items_), targets.end()));
  part.unknown.add_row(row.unknown);
  part.unknown_fold_in.add_row(row.unknown_fold_in);
  writer_->append_row(part.name + "/held_out", targets);
  if (weak_) return;
  part.fold_in.add_row(fold_in);
  writer_->append_row(part.name + "/fold_in", fold_in);
}

std::int64_t SplitWriter::interactions() const {
  std::int64_t sum = train_.events();
  for (const HeldOutCount* part : {&validation_, &test_})
    sum += part->fold_in.events() + part->targets.events();
  return sum;
}

void SplitWriter::report(PrepareReport& report, bool given, Log& log) const {
  report.stages.push_back(train_.stage("train"));
  if (removed_.events() > 0) report.stages.push_back(removed_.stage("train: removed, of new items"));
  for (const HeldOutCount* part : {&validation_, &test_})
    if (!weak_ || part->rows > 0) report_part(*part, given, report, log);
}

void SplitWriter::report_part(const HeldOutCount& part, bool given, PrepareReport& report, Log& log) const {
  report.stages.push_back(part.unknown.stage(part.name + ": dropped, no train user has the item"));
  if (part.unknown_fold_in.events() > 0)
    report.stages.push_back(
        part.unknown_fold_in.stage(part.name + ": fold-in dropped, no train user has the item"));
  if (!weak_) report.stages.push_back(part.fold_in.stage(part.name + ": fold-in"));
  report.stages.push_back(part.targets.stage(part.name + ": targets"));
  if (part.new_targets.events() > 0)
    report.stages.push_back(part.new_targets.stage(part.name + ": targets that are new items"));
  report.stages.push_back({part.name + ": users without a target", 0, part.without_target, 0});
  if (part.without_target > 0) {
    log.warn("{} of {} {} users have no target, since they have too few events{}; metrics exclude them",
             part.without_target, part.rows, part.name,
             part.unknown.events() > 0 ? ", or no train user has the item" : "");
  }
  // Targets of a given split may be among the fold-in items.
  if (given && part.seen_targets > 0) {
    log.warn("{} {} targets are also fold-in items of the same user; they are kept and count as misses",
             part.seen_targets, part.name);
  }
}

}  // namespace vaecf::data
