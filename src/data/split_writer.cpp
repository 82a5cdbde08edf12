#include "data/split.hpp"

#include <vaecf/base/format.hpp>

#include <algorithm>

namespace vaecf::data {

void SplitWriter::start(bool weak, std::int64_t items) {
  weak_ = weak;
  train_ = Tally(items);
  validation_ = {"validation", 0, Tally(items), Tally(items), Tally(items), 0, 0};
  test_ = {"test", 0, Tally(items), Tally(items), Tally(items), 0, 0};
}

void SplitWriter::train(std::span<std::int32_t> columns) {
  std::sort(columns.begin(), columns.end());
  train_.add_row(columns);
  writer_->append_row("train", columns);
}

void SplitWriter::held_out(Part which, std::span<std::int32_t> fold_in, HeldOutRow& row) {
  HeldOutCount& part = held_out_of(which);
  std::vector<std::int32_t>& targets = row.targets;
  std::sort(fold_in.begin(), fold_in.end());
  std::sort(targets.begin(), targets.end());
  for (const std::int32_t target : targets) {
    part.seen_targets += std::binary_search(fold_in.begin(), fold_in.end(), target) ? 1 : 0;
  }
  ++part.rows;
  part.without_target += targets.empty() ? 1 : 0;
  part.targets.add_row(targets);
  part.unknown.add_row(row.unknown);
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
  report.steps.push_back(train_.step("train"));
  for (const HeldOutCount* part : {&validation_, &test_}) {
    if (!weak_ || part->rows > 0) report_part(*part, given, report, log);
  }
}

void SplitWriter::report_part(const HeldOutCount& part, bool given, PrepareReport& report, Log& log) const {
  report.steps.push_back(part.unknown.step(part.name + ": dropped, no train user has the item"));
  if (!weak_) report.steps.push_back(part.fold_in.step(part.name + ": fold-in"));
  report.steps.push_back(part.targets.step(part.name + ": targets"));
  report.steps.push_back({part.name + ": users without a target", 0, part.without_target, 0});
  if (part.without_target > 0) {
    log.warn("{} of {} {} users have no target, since they have too few events{}: metrics leave them out",
             part.without_target, part.rows, part.name,
             part.unknown.events() > 0 ? ", or no train user has the item" : "");
  }
  // A split of one's own may ask for what the user has already.
  if (given && part.seen_targets > 0) {
    log.warn(
        "{} {} targets are among the items that the model is shown of the same user: they are kept, and "
        "count as never found",
        part.seen_targets, part.name);
  }
}

}  // namespace vaecf::data
