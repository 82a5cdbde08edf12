#pragma once

#include <vaecf/base/half_precision.hpp>
#include <vaecf/device/device.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace vaecf::cpu {

/// Returns `bytes` of zeroed memory, aligned to at least 64 bytes. Large allocations request huge pages,
/// because weights, moments and logits are read with strides that exceed the TLB reach of small pages.
void* allocate_zeroed(std::size_t bytes);
/// Releases memory of allocate_zeroed(), given its size.
void deallocate(void* memory, std::size_t bytes);

/// Array in memory of allocate_zeroed().
template <class T>
class AlignedArray {
 public:
  AlignedArray() = default;
  explicit AlignedArray(std::int64_t size) { resize(size); }
  /// Changes the size. If the size changes, the contents are lost and all elements are zero.
  void resize(std::int64_t size) {
    if (size == size_) return;
    const std::size_t bytes = static_cast<std::size_t>(size) * sizeof(T);
    values_.reset();  // before the new allocation, to limit peak memory
    size_ = 0;
    values_ = {size == 0 ? nullptr : static_cast<T*>(allocate_zeroed(bytes)), Deallocate{bytes}};
    size_ = size;
  }
  /// Makes the array at least `size` elements long. If it grows, the contents are lost.
  void reserve(std::int64_t size) {
    if (size > size_) resize(size);
  }
  T* data() { return values_.get(); }
  const T* data() const { return values_.get(); }
  T& operator[](std::int64_t i) { return values_.get()[i]; }
  const T& operator[](std::int64_t i) const { return values_.get()[i]; }
  std::int64_t size() const { return size_; }

 private:
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
  struct Deallocate {
    std::size_t bytes = 0;
    void operator()(T* p) const { deallocate(p, bytes); }
  };
  std::unique_ptr<T[], Deallocate> values_;
  std::int64_t size_ = 0;
};

using FloatBuffer = AlignedArray<float>;
using Bf16Buffer = AlignedArray<Bf16>;

/// The weights: fp32 masters in the flat layout and, in bf16, a copy of the output table.
class Parameters {
 public:
  Parameters(const device::ParameterLayout& layout, std::int64_t min_size, bool bf16);
  const device::ParameterLayout& layout() const { return layout_; }
  FloatBuffer& master() { return master_; }
  const FloatBuffer& master() const { return master_; }

  const float* weights(int tensor) const { return master_.data() + layout_.tensors[tensor].range.begin; }
  /// Returns the bf16 copy of the output table, the only tensor large enough to need one; empty in fp32.
  AlignedArray<std::uint16_t>& bf16_copy() { return bf16_copy_; }
  const AlignedArray<std::uint16_t>& bf16_copy() const { return bf16_copy_; }
  /// Returns the flat elements that have a bf16 copy.
  Range bf16_range() const { return bf16_range_; }
  /// Returns the address of the copy of flat element `i`, or null if it has none.
  std::uint16_t* bf16_copy_of(std::int64_t i) {
    return i >= bf16_range_.begin && i < bf16_range_.end ? bf16_copy_.data() + (i - bf16_range_.begin)
                                                         : nullptr;
  }

 private:
  device::ParameterLayout layout_;
  FloatBuffer master_;
  Range bf16_range_;
  AlignedArray<std::uint16_t> bf16_copy_;
};

/// (rows, columns) fp32, row-major, without padding.
class Activations {
 public:
  Activations(std::int64_t max_rows, std::int64_t columns)
      : values_(max_rows * columns), max_rows_(max_rows), columns_(columns) {}
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  /// Sets the number of rows in use. Throws std::logic_error if it exceeds the maximum.
  void set_rows(std::int64_t rows);
  float* row(std::int64_t r) { return values_.data() + r * columns_; }
  const float* row(std::int64_t r) const { return values_.data() + r * columns_; }
  /// Returns the memory of `n` rows, in use or not. Throws std::logic_error if `n` exceeds the maximum.
  std::span<float> first_rows(std::int64_t n) {
    check_rows(n);
    return {values_.data(), static_cast<std::size_t>(n * columns_)};
  }
  std::span<const float> first_rows(std::int64_t n) const {
    check_rows(n);
    return {values_.data(), static_cast<std::size_t>(n * columns_)};
  }

 private:
  void check_rows(std::int64_t n) const;

  AlignedArray<float> values_;
  std::int64_t max_rows_;
  std::int64_t columns_;
  std::int64_t rows_ = 0;
};

/// View of rows of users in host memory.
class UserRows {
 public:
  UserRows(SlicedRows view, std::int64_t first, std::int64_t item_count, device::ItemSlices& of_group)
      : sliced(view),
        csr(view.rows),
        first_user(first),
        items(of_group.slice(item_count)),
        slices(&of_group) {}
  std::int64_t rows() const { return csr.rows(); }
  std::string description() const { return ""; }

  SlicedRows sliced;
  CsrView csr;
  std::int64_t first_user;
  ItemSlice items;
  device::ItemSlices* slices;
};

/// Row indices of every batch of an epoch.
class BatchSchedule {
 public:
  std::int64_t batches() const { return static_cast<std::int64_t>(begin_.size()) - 1; }
  std::int64_t users(std::int64_t batch) const { return begin_[batch + 1] - begin_[batch]; }
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
class StepState {
 public:
  /// Returns the rule with clipping applied to its scale, for tensors with or without weight decay.
  device::UpdateRule rule(bool decays) const {
    device::UpdateRule rule = params.rule;
    rule.gradient_scale *= device::clip_factor(rule, gradient_stats.data()[1]);
    if (!decays) rule.decay = 0.0F;
    return rule;
  }

  device::StepParams params;
  double nll = 0.0;  // of the current step
  double kl = 0.0;
  double weighted_kl = 0.0;  // the part whose weight depends on the user
  std::int64_t users = 0;
  device::LossSums sums;
  double squares = 0.0;           // of the gradient parts inspected so far
  FloatBuffer gradient_stats{2};  // overflows (none on a CPU) and squares
};

/// Metrics (metrics, users).
class MetricValues {
 public:
  MetricValues(std::size_t metrics, std::int64_t user_count)
      : users(user_count), values(metrics * static_cast<std::size_t>(user_count)) {}
  std::int64_t users;
  std::vector<double> values;
};

/// A batch of users in CSR form, and its transpose.
class Batch {
 public:
  std::int64_t users() const { return static_cast<std::int64_t>(user_numbers.size()); }
  CsrView rows() const { return {offsets, columns}; }
  device::ItemSlices& slices() const { return *slices_of_items; }
  Range own() const { return slices().own_users(users()); }

  device::ItemSlices* slices_of_items = &device::one_slice();
  ItemSlice items;                          // the columns are its local indices
  std::vector<std::uint32_t> user_numbers;  // (B)
  std::vector<std::int32_t> sizes;          // (B) number of each user's items in all slices
  std::vector<std::int64_t> offsets{0};     // (B + 1)
  std::vector<std::int32_t> columns;
  // The transpose: users of item i are item_users[item_begin[i] .. item_begin[i + 1]), ascending.
  bool has_transpose = false;
  std::vector<std::int32_t> item_begin;  // (items.count() + 1)
  std::vector<std::int32_t> item_users;
};

/// Never created: the CPU device does not capture graphs.
struct Graph {};

/// Host-clock time stamps; operations have finished when they return.
class DeviceTimer {
 public:
  using Clock = std::chrono::steady_clock;
  void record() { marks_.push_back(Clock::now()); }
  std::vector<double> elapsed();
  Clock::time_point last_record_time() const { return last_; }

 private:
  std::vector<Clock::time_point> marks_;
  Clock::time_point last_;
};

using Moments = device::Moments<FloatBuffer>;
using FusedUpdate = device::FusedUpdate<Parameters, FloatBuffer>;
using SideFeatures = device::SideFeatures<Batch>;

}  // namespace vaecf::cpu
