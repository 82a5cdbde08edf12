#include "late_rows.hpp"

#include "parallel.hpp"
#include "vector_kernels.hpp"

namespace vaecf::cpu {
namespace {

/// Apart from what is kept for each step.
bool alike(const backend::UpdateRule& a, const backend::UpdateRule& b) {
  return a.beta1 == b.beta1 && a.beta2 == b.beta2 && a.epsilon == b.epsilon;
}

}  // namespace

void LateRows::begin_step(const backend::UpdateRule& rule, const Table& table, int threads) {
  if (!(table == table_) || !alike(rule, rule_) || rates_.size() >= most_steps) catch_up_all(threads);
  table_ = table;
  rule_ = rule;
  done_.resize(static_cast<std::size_t>(table.rows), 0);
  waits_.resize(static_cast<std::size_t>(table.rows), 0);
}

void LateRows::end_step() {
  rates_.push_back(rule_.rate);
  scales_.push_back(rule_.gradient_scale);
}

void LateRows::catch_up(std::int64_t row) {
  const auto all = static_cast<std::int32_t>(rates_.size());
  const std::int32_t done = done_[row];
  if (done >= all) return;
  const std::int64_t at = row * table_.width;
  const bool waits = waits_[row] != 0;
  backend::UpdateRule rule = rule_;
  rule.gradient_scale = scales_[done];
  update_late(rule, waits ? table_.gradients + at : nullptr, rates_.data() + done, all - done,
              table_.first_moment + at, table_.second_moment + at, table_.weights + at, table_.width);
  waits_[row] = 0;
  done_[row] = all;
}

void LateRows::catch_up_all(int threads) {
  if (!owing()) return;
  on_pieces(threads, table_.rows, 64, [&](int, Range part) {
    for (std::int64_t row = part.begin; row < part.end; ++row) catch_up(row);
  });
  rates_.clear();
  scales_.clear();
  done_.assign(done_.size(), 0);
}

}  // namespace vaecf::cpu
