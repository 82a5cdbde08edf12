#pragma once

#include <vaecf/device/device.hpp>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "device/step_values.hpp"

namespace vaecf::cpu {

using device::Activation, device::AlignedArray, device::Backward, device::Bf16Buffer, device::Buffer,
    device::EventHandle, device::FusedUpdate, device::GradientReady, device::InputDropout,
    device::ModelParallelGroup, device::Layer, device::Loss, device::LossScale, device::LossSums,
    device::Matrix, device::Moments, device::Norm, device::OutputGradients, device::own,
    device::ParameterLayout, device::Parameters, device::SideFeatures, device::TensorLayout,
    device::TensorSpec, device::UpdateRange, device::UpdateRule;

/// Returns the memory of `n` rows of `matrix`, in use or not.
inline std::span<float> first_rows(Matrix& matrix, std::int64_t n) {
  return {matrix.values(), static_cast<std::size_t>(n * matrix.stride())};
}
inline std::span<const float> first_rows(const Matrix& matrix, std::int64_t n) {
  return {matrix.values(), static_cast<std::size_t>(n * matrix.stride())};
}

/// View of rows of users in host memory.
struct UserRows final : device::UserRows {
  UserRows(ItemSliceView view, std::int64_t first, std::int64_t item_count,
           ModelParallelGroup& model_parallel)
      : sliced(view),
        csr(view.rows),
        first_user(first),
        items(model_parallel.item_slice(item_count)),
        model_parallel(&model_parallel) {}
  std::int64_t rows() const override { return csr.rows(); }
  std::int64_t entries_of(std::span<const std::int64_t> rows) const override;
  std::string description() const override { return ""; }

  ItemSliceView sliced;
  CsrView csr;
  std::int64_t first_user;
  ItemSlice items;
  ModelParallelGroup* model_parallel;
};

/// Row indices of every batch of an epoch.
class BatchSchedule final : public device::BatchSchedule {
 public:
  std::int64_t batches() const override { return static_cast<std::int64_t>(begin_.size()) - 1; }
  std::int64_t users(std::int64_t batch) const override { return begin_[batch + 1] - begin_[batch]; }
  void set_next(std::span<const std::int64_t> rows, std::span<const std::int64_t> begin);
  void start_next();
  std::span<const std::int64_t> rows(std::int64_t batch) const {
    return std::span(rows_).subspan(static_cast<std::size_t>(begin_[batch]),
                                    static_cast<std::size_t>(users(batch)));
  }

 private:
  std::vector<std::int64_t> rows_;
  std::vector<std::int64_t> begin_{0};
  std::vector<std::int64_t> next_rows_;
  std::vector<std::int64_t> next_begin_;  // empty: none
};

/// The state of a step; always up to date, because operations have finished when they return.
struct StepState final : device::StepState, device::StepValues {
  /// Returns the rule for tensors with or without weight decay.
  UpdateRule rule(bool decays) const { return StepValues::rule(decays, gradient_stats.data()[1], 1.0F); }

  Buffer gradient_stats{AlignedArray<float>(2)};  // overflows (none on a CPU) and squares
};

/// Metrics (metrics, users).
struct MetricValues final : device::MetricValues {
  MetricValues(std::size_t metrics, std::int64_t user_count)
      : users(user_count), values(metrics * static_cast<std::size_t>(user_count)) {}
  std::int64_t users;
  std::vector<double> values;
};

/// A batch of users in CSR form, and its transpose.
struct Batch final : device::Batch {
  std::int64_t users() const override { return static_cast<std::int64_t>(user_numbers.size()); }
  ModelParallelGroup& model_parallel() const override { return *model_parallel_; }
  CsrView rows() const { return {offsets, columns}; }

  ModelParallelGroup* model_parallel_ = &device::single_rank();
  ItemSlice items;                          // the columns are its local indices
  std::vector<std::uint32_t> user_numbers;  // (B)
  std::vector<std::int32_t> sizes;          // (B) number of each user's items in all item slices
  std::vector<std::int64_t> offsets{0};     // (B + 1)
  std::vector<std::int32_t> columns;
  // The transpose: users of item i are item_users[item_begin[i] .. item_begin[i + 1]), ascending.
  bool has_transpose = false;
  std::vector<std::int32_t> item_begin;  // (items.count() + 1)
  std::vector<std::int32_t> item_users;
};

/// Host-clock time stamps; operations have finished when they return.
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

/// Device::export_rows() on one thread.
struct Exporter final : device::Exporter {
  void wait_event(EventHandle) override {}
  void export_rows(const ParameterLayout& layout, int tensor, Range rows, const Buffer& flat,
                   std::span<float> logical) override;
};

}  // namespace vaecf::cpu
