#pragma once

#include <vaecf/base/half_precision.hpp>
#include <vaecf/base/views.hpp>

#include <algorithm>
#include <cstdint>
#include <span>

namespace vaecf::device {

/// A point in the device's stream that the host or another stream can wait for. Null on the CPU, where all
/// work before it is already done.
struct EventHandle {
  void* event = nullptr;
};

/// A model-parallel group of S ranks that share a batch: each holds an item slice of the large tables, and
/// each carries a part of the batch's users through the layers between them. Operations on tables exchange
/// activations through this interface. All ranks of the model-parallel group must call its functions in the
/// same order, with the same sizes. The input must be complete when `after` is signaled; no buffer may be
/// written or freed until the returned event is signaled. On the CPU, functions block and events are null.
class ModelParallelGroup {
 public:
  virtual ~ModelParallelGroup() = default;
  /// Returns the number of item slices S.
  virtual int count() const = 0;
  /// Returns the index of this rank's item slice, 0 to S - 1.
  virtual int index() const = 0;
  /// Sums `all` (S parts of part.size() elements) over the model-parallel group; item slice s receives part s
  /// of the sum in `part`, which does not overlap with `all`. Collective.
  virtual EventHandle reduce_scatter(std::span<const float> all, std::span<float> part,
                                     EventHandle after) = 0;
  /// Gathers every item slice's `part` in `all` (S * part.size() elements), in the order of item slices.
  /// `part` does not overlap with `all`. Collective.
  virtual EventHandle all_gather(std::span<const float> part, std::span<float> all, EventHandle after) = 0;
  virtual EventHandle all_gather(std::span<const Bf16> part, std::span<Bf16> all, EventHandle after) = 0;

  /// Returns this rank's item slice of `items` items.
  ItemSlice item_slice(std::int64_t items) const { return {items, index(), count()}; }
  /// Returns the number of rows of each part when `users` users are divided over the model-parallel group;
  /// the last parts may have fewer users than rows.
  std::int64_t part_rows(std::int64_t users) const { return (users + count() - 1) / count(); }
  /// Returns the users of a batch of `users` that this rank carries through the layers between the tables.
  Range own_users(std::int64_t users) const {
    const std::int64_t rows = part_rows(users);
    return {std::min(users, index() * rows), std::min(users, (index() + 1) * rows)};
  }
};

/// The model-parallel group of a rank that holds all items. Copies on the host, and waits for nothing.
class SingleRank final : public ModelParallelGroup {
 public:
  int count() const override { return 1; }
  int index() const override { return 0; }
  EventHandle reduce_scatter(std::span<const float> all, std::span<float> part, EventHandle after) override {
    std::ranges::copy(all, part.begin());
    return after;
  }
  EventHandle all_gather(std::span<const float> part, std::span<float> all, EventHandle after) override {
    std::ranges::copy(part, all.begin());
    return after;
  }
  EventHandle all_gather(std::span<const Bf16> part, std::span<Bf16> all, EventHandle after) override {
    std::ranges::copy(part, all.begin());
    return after;
  }
};

/// Returns whether a GPU whose products have 16-bit operands reads the gradient of the sums of the input
/// layer, rows of `width` elements of `users` users, in 16 bits, and gathers it in 16 bits from a
/// model-parallel group. These rows are read once per item of their user, so they stay in fp32 if they fit
/// into the L2 cache.
inline bool reads_half_gradient(std::int64_t users, std::int64_t width) {
  constexpr std::int64_t cached_bytes = std::int64_t{16} << 20;
  return users * width * static_cast<std::int64_t>(sizeof(float)) > cached_bytes;
}

/// Returns the model-parallel group of a rank that holds all items: one item slice, without exchange.
inline ModelParallelGroup& single_rank() {
  static SingleRank rank;
  return rank;
}

}  // namespace vaecf::device
