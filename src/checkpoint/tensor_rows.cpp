#include "checkpoint/tensor_rows.hpp"

#include <array>

namespace vaecf::checkpoint {
namespace {

/// Returns the stored rows of item slice `item_slice` of a tensor within the logical rows `rows`.
Range rows_of_item_slice(const device::TensorSpec& spec, const ItemSlice& item_slice, Range rows) {
  return spec.has_item_rows() ? Range{item_slice.before(rows.begin), item_slice.before(rows.end)} : rows;
}

/// Calls visit(row, column, logical row, logical column), all counted from 0, for each element that
/// `item_slice` stores of the logical rows `rows`.
template <class Visit>
void for_each_element(const device::TensorSpec& spec, const ItemSlice& item_slice, Range rows,
                      const Visit& visit) {
  const Range stored = rows_of_item_slice(spec, item_slice, rows);
  const std::int64_t columns = spec.has_item_rows() ? spec.columns : item_slice.count();
  for (std::int64_t row = stored.begin; row < stored.end; ++row) {
    const std::int64_t logical = (spec.has_item_rows() ? item_slice.global(row) : row) - rows.begin;
    for (std::int64_t column = 0; column < columns; ++column)
      visit(row - stored.begin, column, logical, spec.has_item_rows() ? column : item_slice.global(column));
  }
}

}  // namespace

StoredRows stored_rows(const device::TensorSpec& spec, Range rows, std::span<const float> logical) {
  StoredRows part;
  if (!spec.item_slice) {
    part.rows = rows;
    part.values = logical;
    return part;
  }
  part.rows = rows_of_item_slice(spec, *spec.item_slice, rows);
  part.memory.resize(part.rows.size() * spec.columns);
  for_each_element(
      spec, *spec.item_slice, rows,
      [&](std::int64_t row, std::int64_t column, std::int64_t from_row, std::int64_t from_column) {
        part.memory[row * spec.columns + column] = logical[from_row * spec.logical_columns() + from_column];
      });
  part.values = part.memory;
  return part;
}

void GatheredState::gather(training::StateTensor state, int tensor, Range rows, std::span<float> to) {
  const device::TensorSpec& spec = specs_[tensor];
  if (!spec.item_slice) {
    if (context_.communicator.rank() == 0) trainer_.read_state_rows(state, tensor, rows, to);
    return;
  }
  // All parts have the size of the largest one: that of item slice 0 or, of rows in the middle, of any other
  // one.
  const ItemSlice& mine = *spec.item_slice;
  const Range stored = rows_of_item_slice(spec, mine, rows);
  const std::int64_t largest_rows = spec.has_item_rows() ? rows.size() / mine.step + 1 : rows.size();
  const std::int64_t largest_columns =
      spec.has_item_rows() ? spec.columns : (mine.all + mine.step - 1) / mine.step;
  const auto part_size = static_cast<std::size_t>(largest_rows * largest_columns);
  part_.assign(part_size, 0.0F);
  trainer_.read_state_rows(state, tensor, stored, std::span(part_).first(stored.size() * spec.columns));
  parts_.resize(part_size * static_cast<std::size_t>(mine.step));
  context_.grid->model_parallel_ranks().all_gather(std::span<const float>(part_), std::span<float>(parts_));
  context_.communicator.activity().note_progress();
  if (context_.communicator.rank() != 0) return;
  for (std::int64_t s = 0; s < mine.step; ++s) {
    const ItemSlice item_slice{mine.all, s, mine.step};
    const float* part = parts_.data() + static_cast<std::size_t>(s) * part_size;
    const std::int64_t columns = spec.has_item_rows() ? spec.columns : item_slice.count();
    for_each_element(spec, item_slice, rows,
                     [&](std::int64_t row, std::int64_t column, std::int64_t to_row, std::int64_t to_column) {
                       to[to_row * spec.logical_columns() + to_column] = part[row * columns + column];
                     });
  }
}

void GatheredState::read_rows(training::StateTensor state, int tensor, Range rows, std::span<float> to) {
  std::array<std::int64_t, 4> request = {static_cast<std::int64_t>(state), tensor, rows.begin, rows.end};
  context_.grid->model_parallel_ranks().broadcast(std::span<std::int64_t>(request), 0);
  gather(state, tensor, rows, to);
}

void GatheredState::finish() {
  std::array<std::int64_t, 4> end = {-1, 0, 0, 0};
  context_.grid->model_parallel_ranks().broadcast(std::span<std::int64_t>(end), 0);
}

void GatheredState::serve() {
  for (;;) {
    std::array<std::int64_t, 4> request{};
    context_.grid->model_parallel_ranks().broadcast(std::span<std::int64_t>(request), 0);
    if (request[0] < 0) return;
    gather(static_cast<training::StateTensor>(request[0]), static_cast<int>(request[1]),
           {request[2], request[3]}, {});
  }
}

}  // namespace vaecf::checkpoint
