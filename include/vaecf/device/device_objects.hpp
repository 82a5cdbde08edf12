#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/device/array.hpp>
#include <vaecf/device/model_parallel_group.hpp>
#include <vaecf/device/tensor_layout.hpp>
#include <vaecf/math/metrics.hpp>

#include <cassert>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace vaecf::device {

// The objects that differ between devices. A device makes them, must outlive them, and is the only
// one that accesses their members, by own().

/// The base of these classes.
struct Opaque {
  Opaque() = default;
  Opaque(const Opaque&) = delete;
  Opaque& operator=(const Opaque&) = delete;
  virtual ~Opaque() = default;
};

/// Returns `object` as the class that the calling device made it of.
template <class Mine, class Base>
auto& own(Base& object) {
  using Result = std::conditional_t<std::is_const_v<Base>, const Mine, Mine>;
  assert(dynamic_cast<Result*>(&object) != nullptr);  // an object of another device
  return static_cast<Result&>(object);
}

/// The parameters of a step, its losses, the sums of losses and the loss scale, in device memory.
struct StepState : Opaque {};
/// Ranks of the targets of users.
struct TargetRanks : Opaque {};
/// Captured operations, which Device::replay() runs on the current contents of the step state.
struct Graph : Opaque {};

/// Sparse rows of training or held-out users.
struct UserRows : Opaque {
  virtual std::int64_t rows() const = 0;
  /// Returns the number of items of these rows.
  virtual std::int64_t entries_of(std::span<const std::int64_t> rows) const = 0;
  /// Returns where the rows are stored and why, as one line for the log; may be empty.
  virtual std::string description() const = 0;
};

/// The row indices of every batch of an epoch.
struct BatchSchedule : Opaque {
  std::int64_t batches() const { return static_cast<std::int64_t>(begin.size()) - 1; }
  std::int64_t users(std::int64_t batch) const { return begin[batch + 1] - begin[batch]; }

  std::vector<std::int64_t> begin{0};  ///< (batches + 1) of the batches in the row indices
};

/// A batch X (B, I) of users, and its transpose.
struct Batch : Opaque {
  virtual std::int64_t users() const = 0;
  ModelParallelGroup& model_parallel() const { return *model_parallel_; }
  /// Returns the users whose activations this rank has.
  Range own() const { return model_parallel_->own_users(users()); }

  ModelParallelGroup* model_parallel_ = &single_rank();
};

/// Time stamps of the device.
struct Timer : Opaque {
  /// Adds a time stamp, taken when all earlier operations are done. Not during a capture.
  virtual void record() = 0;
  /// Returns the seconds between consecutive time stamps and removes all. Blocks until the last one.
  virtual std::vector<double> elapsed() = 0;
  /// Returns the last time stamp of the previous elapsed() on the host's clock.
  virtual std::chrono::steady_clock::time_point last_record_time() const = 0;
};

/// Device::export_rows() for one other thread, while the device works.
struct Exporter : Opaque {
  /// Makes export_rows() wait for `done`.
  virtual void wait_event(EventHandle done) = 0;
  virtual void export_rows(const ParameterLayout& layout, int tensor, Range rows, const Buffer& flat,
                           std::span<float> logical) = 0;
};

/// A dense matrix B (I, I) of weights between items, and the scores x B of at most max_users users.
struct ItemMatrix : Opaque {
  virtual std::int64_t max_users() const = 0;
  /// Gives these items the score -infinity until the next call.
  virtual void exclude_items(std::span<const std::int32_t> items) = 0;
  /// Computes the scores of the users of `batch`, who have `entries` items.
  virtual void score(const Batch& batch, std::int64_t entries) = 0;
  /// These are the operations of Device with the scores of the last score() of as many users.
  virtual void rank_targets(const Batch& batch, const UserRows& targets, Range rows, TargetRanks& ranks) = 0;
  virtual void top_k(const Batch& batch, int k, std::span<std::int32_t> items, std::span<float> scores) = 0;
  /// Writes row `item` of B. Blocks.
  virtual void read_row(std::int64_t item, std::span<float> row) const = 0;
};

}  // namespace vaecf::device
