#pragma once

#include <vaecf/backend/update_rule.hpp>
#include <vaecf/base/views.hpp>

#include <cstdint>
#include <vector>

namespace vaecf::cpu {

/// Rows of the input table that owe Adam's updates. The update of a row reads nothing but its own gradient,
/// moments and weights and the step's rate: so it can wait until the row is read, and memory is passed over
/// for the rows of a batch instead of for all. What a row owes is then made up for step by step in cache,
/// with the same rates and the same arithmetic: the bits are those of updates done at once.
class LateRows {
 public:
  /// Where the rows lie: each of `width` elements, one behind the other.
  struct Table {
    const float* gradients = nullptr;
    float* weights = nullptr;
    float* first_moment = nullptr;
    float* second_moment = nullptr;
    std::int64_t rows = 0;
    std::int64_t width = 0;
    bool operator==(const Table&) const = default;
  };

  /// Whether any row may owe anything.
  bool owing() const { return !rates_.empty(); }
  /// Whether any of these weights may be such a row's.
  bool owes(const float* weights, std::int64_t n) const {
    return owing() && weights < table_.weights + table_.rows * table_.width && weights + n > table_.weights;
  }
  /// Begins a step by `rule`, Adam's and without decay, on `table`. What is owed by other rules or to other
  /// memory is made up for before, with `threads`, and where it has become much.
  void begin_step(const backend::UpdateRule& rule, const Table& table, int threads);
  /// Within a step: the row, which owes nothing from before, has a gradient, to be left where it is.
  void has_gradient(std::int64_t row) { waits_[row] = 1; }
  /// From now on all rows owe the step since begin_step.
  void end_step();

  /// Makes up for what this row owes. Rows may be taken by different threads at a time.
  void catch_up(std::int64_t row);
  /// The same for all rows.
  void catch_up_all(int threads);

 private:
  /// Steps after which all rows are brought up to date: bounds the memory and the time of catching up.
  static constexpr std::size_t most_steps = 1024;

  Table table_;
  backend::UpdateRule rule_;  // of all the steps, apart from:
  std::vector<float> rates_;  // of the steps since no row owed anything
  std::vector<float> scales_;
  std::vector<std::int32_t> done_;  // (rows): how many of these steps a row has had
  std::vector<char> waits_;         // (rows): the first step that the row owes is one with a gradient
};

}  // namespace vaecf::cpu
