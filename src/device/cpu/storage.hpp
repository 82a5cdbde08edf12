#pragma once

#include <vaecf/device/device.hpp>
#include <vaecf/math/loss.hpp>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vaecf::cpu {

using device::Activation, device::Backward, device::Bf16Buffer, device::Buffer, device::EventHandle,
    device::FusedUpdate, device::InputScaling, device::ModelParallelGroup, device::Layer, device::Loss,
    device::LossScale, device::LossSums, device::Matrix, device::Moments, device::Norm,
    device::OutputGradients, device::own, device::ParameterLayout, device::Parameters, device::SideFeatures,
    device::TensorLayout, device::TensorSpec, device::UpdateRange, device::UpdateRule;

/// Returns the memory of `n` rows of `matrix`, in use or not.
inline std::span<float> first_rows(Matrix& matrix, std::int64_t n) {
  return {matrix.values(), static_cast<std::size_t>(n * matrix.stride())};
}
inline std::span<const float> first_rows(const Matrix& matrix, std::int64_t n) {
  return {matrix.values(), static_cast<std::size_t>(n * matrix.stride())};
}

struct UserRows final : device::UserRows {
  UserRows(ItemSliceView view, std::int64_t first, std::int64_t item_count, ModelParallelGroup& ranks)
      : csr(view.rows),
        own_totals(view.totals.empty() ? totals_of(view.rows) : std::vector<RowTotals>()),
        totals(view.totals.empty() ? own_totals : view.totals),
        first_user(first),
        items(ranks.item_slice(item_count)),
        model_parallel(&ranks) {}
  std::int64_t rows() const override { return csr.rows(); }
  std::int64_t entries_of(std::span<const std::int64_t> rows) const override;
  std::string description() const override { return ""; }

  CsrView csr;
  std::vector<RowTotals> own_totals;  // empty if the caller has them
  std::span<const RowTotals> totals;  // (rows)
  std::int64_t first_user;
  ItemSlice items;
  ModelParallelGroup* model_parallel;
};

class BatchSchedule final : public device::BatchSchedule {
 public:
  void set_next(std::span<const std::int64_t> rows, std::span<const std::int64_t> begins);
  void start_next();
  std::span<const std::int64_t> rows(std::int64_t batch) const {
    return std::span(rows_).subspan(static_cast<std::size_t>(begin[batch]),
                                    static_cast<std::size_t>(users(batch)));
  }

 private:
  std::vector<std::int64_t> rows_;
  std::vector<std::int64_t> next_rows_;
  std::vector<std::int64_t> next_begin_;  // empty: none
};

/// The state of a step; always up to date, because operations have finished when they return.
struct StepState final : device::StepState, device::StepValues {
  UpdateRule rule(bool decays) const { return StepValues::rule(decays, gradient_stats.data()[1], 1.0F); }

  Buffer gradient_stats{AlignedArray<float>(2)};  // overflows (none on a CPU) and squares
};

struct TargetRanks final : device::TargetRanks {
  explicit TargetRanks(std::int64_t targets) : values(static_cast<std::size_t>(targets)) {}
  std::vector<std::int32_t> values;
};

struct Batch final : device::Batch {
  std::int64_t users() const override { return static_cast<std::int64_t>(user_numbers.size()); }
  CsrView rows() const { return {offsets, columns, values}; }

  ItemSlice items;                          // the columns are its local indices
  std::vector<std::uint32_t> user_numbers;  // (B)
  std::vector<RowTotals> totals;            // (B)
  std::vector<std::int64_t> offsets{0};     // (B + 1)
  std::vector<std::int32_t> columns;
  std::vector<float> values;  // like `columns`; empty: all are 1
  // The transpose: users of item i are item_users[item_begin[i] .. item_begin[i + 1]), ascending.
  bool has_transpose = false;
  std::vector<std::int32_t> item_begin;  // (items.count() + 1)
  std::vector<std::int32_t> item_users;
  std::vector<float> item_values;  // like `item_users`; empty: all are 1
};

class Timer final : public device::Timer {
 public:
  using Clock = std::chrono::steady_clock;
  void record() override { marks_.push_back(Clock::now()); }
  std::vector<double> elapsed() override;
  Clock::time_point last_record_time() const override { return last_; }

 private:
  std::vector<Clock::time_point> marks_;
  Clock::time_point last_;
};

struct Exporter final : device::Exporter {
  void wait_event(EventHandle) override {}
  void export_rows(const ParameterLayout& layout, int tensor, Range rows, const Buffer& flat,
                   std::span<float> logical) override;
};

/// Scratch memory of products, mainly of the output layer, kept between steps. The custom kernel stores its
/// operands as tiles, in the order in which its products read them.
struct Workspace {
  struct PerThread {
    AlignedArray<float> logits;        // (tile_items, width), then their gradients; or a tile
    AlignedArray<std::uint16_t> bf16;  // two tiles to convert
    AlignedArray<float>
        fp32_weights;               // (tile_items, K): product operands, if bf16 is emulated by rounded fp32
    AlignedArray<float> d_hidden;   // (width, K) or (K tiles, user tiles): this thread's partial sum
    AlignedArray<float> d_weights;  // gradient of a tile of items: (tile_items or 32, K)
    AlignedArray<float> error;      // (width): output - input of one item
    AlignedArray<double> positive_logits;  // (width): sum of the logits of each user's items
    // Used by the custom kernel of the output layer:
    AlignedArray<std::uint16_t> weights;   // a block of items, (K tiles); then a chunk's, (K tiles, blocks)
    AlignedArray<std::uint16_t> e;         // exponentials of a chunk, transposed: (user tiles, blocks)
    std::vector<double> sum;               // (width): sum of exponentials
    std::vector<float> largest;            // (width): maximum of logit - reference
    std::vector<std::uint16_t> positives;  // positions of the users' seen items in a tile, by user tile
    std::vector<float> positive_values;    // like `positives`; empty: all are 1
    std::vector<std::int32_t> positives_begin;
  };

  std::vector<PerThread> threads;
  AlignedArray<float> e32;                      // (padded items, width): exp(logit - maximum of its tile)
  AlignedArray<std::uint16_t> e16;              // (item blocks, user tiles)
  AlignedArray<float> hidden;                   // (width, K), zero rows for absent users
  AlignedArray<std::uint16_t> hidden16;         // (user tiles, K tiles); or (users, K)
  AlignedArray<float> maximum;                  // (tiles, width)
  AlignedArray<float> sum;                      // (tiles, width)
  AlignedArray<float> factor;                   // (tiles, width), or (width): N_u / sum of exponentials
  AlignedArray<float> scores;                   // (users, padded items)
  AlignedArray<float> products;                 // of an item table: (parts, width, width) or (users, width)
  AlignedArray<std::uint16_t> weighted_hidden;  // (tiles of K + 1, user tiles), paired along the users
  std::vector<float> reference;                 // (width)
  AlignedArray<std::uint16_t> input16, weights16, gradient16;  // of the dense layers, in bf16
  AlignedArray<float> forward_operand, gradient_operand;       // see PackedOperand
  // With several item slices, values of all users of a batch:
  AlignedArray<float> gathered, sums;
};

// Exchanges within a model-parallel group. With one item slice, all functions use the caller's
// memory and exchange nothing. Memory for all users has S parts of equal size, so the last rows may be
// unused.

/// Returns the memory for values of all users of the batch, (users, width), whose sums over the item slices
/// sum_to_owners() writes to `own`: that of `own` if there is one item slice, otherwise `memory`.
float* rows_of_all_users(const Batch& batch, Matrix& own, AlignedArray<float>& memory);
/// Sums rows of all users over the item slices; each rank receives those of its own users. Collective.
void sum_to_owners(const Batch& batch, const float* all, Matrix& own);
/// Returns the rows of all users of the batch, given those of this rank's own users. Collective.
const float* gather_from_owners(const Batch& batch, const Matrix& own, AlignedArray<float>& memory);

/// Adds `values` over the item slices, in their order. Collective.
void sum_over_item_slices(ModelParallelGroup& model_parallel, std::span<float> values,
                          AlignedArray<float>& memory);
/// Replaces each user's softmax over the items of this item slice by that over all items. Collective.
void merge_over_item_slices(ModelParallelGroup& model_parallel, std::span<math::SoftmaxPart<double>> users);

}  // namespace vaecf::cpu
