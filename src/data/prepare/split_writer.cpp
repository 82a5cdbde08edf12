#include "data/prepare/split_writer.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/data/weights.hpp>

#include <algorithm>
#include <limits>
#include <optional>

#include "data/prepare/split_counter.hpp"

namespace vaecf::data {

WeightRule stored_weight_rule(const std::string& path, const std::string& name) {
  const std::optional<WeightRule> rule = parse_enum<WeightRule>(name);
  if (rule && *rule != WeightRule::none) return *rule;
  throw InputError(format(
      "{}: its interaction weights are {}, which this version does not know; they must be rating or log1p",
      path, excerpt(name)));
}

std::vector<float> divided_by_mean(std::span<const double> weights) {
  const auto n = static_cast<double>(weights.size());
  double mean = 0.0;
  for (const double weight : weights) mean += weight / n;  // the sum may exceed the largest double
  std::vector<float> divided;
  divided.reserve(weights.size());
  for (const double weight : weights)
    divided.push_back(std::max(static_cast<float>(weight / mean), std::numeric_limits<float>::min()));
  return divided;
}

void SplitWriter::start(bool weak, std::int64_t items, std::int64_t train_items) {
  weak_ = weak;
  train_items_ = train_items;
  const SplitCounter none(items);
  train_ = removed_ = none;
  validation_ = {"validation", 0, none, none, none, none, none, 0, 0};
  test_ = {"test", 0, none, none, none, none, none, 0, 0};
}

SparseRow SplitWriter::sorted(std::span<Interaction> items) {
  std::ranges::sort(items, {}, &Interaction::column);
  columns_.clear();
  weights_.clear();
  for (const Interaction& item : items) {
    columns_.push_back(item.column);
    weights_.push_back(item.weight);
  }
  if (weighted_) divided_ = divided_by_mean(weights_);
  return {columns_, divided_};
}

void SplitWriter::train(std::span<Interaction> items, std::span<const std::int32_t> removed) {
  const SparseRow row = sorted(items);
  train_.add_row(row.columns);
  removed_.add_row(removed);
  writer_->append_row("train", row);
}

void SplitWriter::held_out(SplitPart which, std::span<Interaction> fold_in, HeldOutRow& row) {
  HeldOutCount& part = held_out_of(which);
  std::vector<std::int32_t>& targets = row.targets;
  const SparseRow input = sorted(fold_in);
  std::sort(targets.begin(), targets.end());
  for (const std::int32_t target : targets)
    part.seen_targets += std::binary_search(input.columns.begin(), input.columns.end(), target) ? 1 : 0;
  ++part.rows;
  part.without_target += targets.empty() ? 1 : 0;
  part.targets.add_row(targets);
  part.new_targets.add_row(std::span(std::ranges::lower_bound(targets, train_items_), targets.end()));
  part.unknown.add_row(row.unknown);
  part.unknown_fold_in.add_row(row.unknown_fold_in);
  writer_->append_row(part.name + "/held_out", targets);
  if (weak_) return;
  part.fold_in.add_row(input.columns);
  writer_->append_row(part.name + "/fold_in", input);
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
  report.stages.push_back(part.targets.stage(part.name + ": held-out items"));
  if (part.new_targets.events() > 0)
    report.stages.push_back(part.new_targets.stage(part.name + ": held-out items that are new"));
  report.stages.push_back({part.name + ": users without a target", 0, part.without_target, 0});
  if (part.without_target > 0) {
    log.warn("{} of {} {} users have no target, since they have too few events{}; metrics exclude them",
             part.without_target, part.rows, part.name,
             part.unknown.events() > 0 ? ", or no train user has the item" : "");
  }
  // Targets of a given split may be among the fold-in items.
  if (given && part.seen_targets > 0) {
    log.warn(
        "{} {} held-out items are also fold-in items of the same user; they are kept and count as misses",
        part.seen_targets, part.name);
  }
}

}  // namespace vaecf::data
