#pragma once

#include <algorithm>
#include <cstdint>

#include "device/cuda/alignment.hpp"
#include "device/cuda/device.hpp"
#include "device/cuda/platform/launch.hpp"
#include "device/cuda/platform/sparse_products.hpp"

namespace vaecf::cuda {

/// Unmasked scores (users, items of the item slice) of the users of a batch from `first_user` on. Rows are
/// 16-byte aligned; values after the last item are undefined.
struct ScoreRows {
  const float* values = nullptr;
  std::int64_t stride = 0;
  std::int64_t first_user = 0;
  std::int64_t users = 0;
  std::int32_t items = 0;

  VAECF_HD const float* row(std::int64_t user) const { return values + (user - first_user) * stride; }
};

/// The users' seen items, which must not be recommended.
class SeenItems {
 public:
  explicit SeenItems(const Batch& batch) : offsets_(batch.offsets.data()), columns_(batch.columns.data()) {}
  VAECF_HD const std::int32_t* begin(std::int64_t user) const { return columns_ + offsets_[user]; }
  VAECF_HD std::int64_t count(std::int64_t user) const { return offsets_[user + 1] - offsets_[user]; }
  VAECF_HD bool holds(std::int64_t user, std::int32_t item) const {
    const std::int64_t end = offsets_[user + 1];
    const std::int64_t at =
        partition_point(offsets_[user], end, [&](std::int64_t k) { return columns_[k] < item; });
    return at < end && columns_[at] == item;
  }

 private:
  const std::int64_t* offsets_;
  const std::int32_t* columns_;
};

/// Returns the number of users whose scores, in rows of `columns` items, are computed at once: about 40 MiB.
/// ML-20M's 512 rows of 20,224 scores fit into the L2 cache of an H100 (50 MB), and four times 79 tiles
/// occupy all of its 132 multiprocessors. The weights are read once per part, so a part has at least 64 users
/// even for catalogs of millions of items.
inline std::int64_t part_users(std::int64_t columns) {
  return std::clamp<std::int64_t>((std::int64_t{40} << 20) / (4 * std::max<std::int64_t>(1, columns)), 64,
                                  512);
}

/// An item matrix in device memory, with the scores of a part of the users.
class ItemMatrix final : public device::ItemMatrix {
 public:
  ItemMatrix(Device& device, Gpu& gpu, std::int64_t item_count, bool deterministic)
      : items(item_count),
        scores(make_matrix(gpu, part_users(item_count), item_count, DType::fp32)),
        values(gpu, item_count * scores.stride(), what),
        offsets(gpu, part_users(item_count) + 1, what),
        products(gpu, deterministic),
        device_(device) {}
  std::int64_t max_users() const override { return scores.max_rows(); }
  void exclude_items(std::span<const std::int32_t> list) override;
  void score(const device::Batch& batch_base, std::int64_t entries) override;
  void rank_targets(const device::Batch& batch, const device::UserRows& targets, Range rows,
                    device::TargetRanks& ranks) override;
  void top_k(const device::Batch& batch, int k, std::span<std::int32_t> best,
             std::span<float> best_scores) override;
  void read_row(std::int64_t item, std::span<float> row) const override;

  /// Returns the bytes of device memory that a matrix of `items` items and its scores take.
  static std::int64_t bytes(std::int64_t items) {
    return 4 * (items + part_users(items)) * round_up(items, row_alignment);
  }

  static constexpr const char* what = "the weights between items";
  std::int64_t items;
  Matrix scores;                       // (max_users(), items)
  DeviceArray<float> values;           // (items, stride of `scores`)
  DeviceArray<std::int32_t> offsets;   // (max_users() + 1) of the users' items
  Buffer ones;                         // values of the users' items if they have none
  DeviceArray<std::int32_t> excluded;  // items whose score is -infinity
  SparseProducts products;

 private:
  Device& device_;
};

/// Computes the scores of a batch in parts. The parts are always the same, so scores for ranks and for top-k
/// lists are bitwise equal. fp32, because bf16 would cause ties. Ranks that share the items score all users
/// of the model-parallel group, in the same parts.
class Scorer {
 public:
  Scorer(Device& device, const Batch& batch, const Matrix& hidden, const Parameters& parameters, Layer layer)
      : device_(device),
        batch_(batch),
        exchange_(device, batch),
        hidden_(hidden),
        weight_(&parameters.layout().tensors[layer.weight]),
        weights_(parameters.operand(layer.weight)),
        bias_(parameters.weights(layer.bias)),
        items_(weight_->spec.columns),
        stride_(round_up(items_, item_alignment)) {
    const std::int64_t most_items = (batch.all_items + exchange_.item_slices() - 1) / exchange_.item_slices();
    part_ = std::min(part_users(round_up(most_items, item_alignment)), batch.users());
  }

  /// Takes the scores of a matrix between items, which are one part.
  Scorer(Device& device, const Batch& batch, const ItemMatrix& matrix)
      : device_(device),
        batch_(batch),
        exchange_(device, batch),
        hidden_(matrix.scores),
        items_(matrix.items),
        stride_(matrix.scores.stride()),
        part_(matrix.scores.rows()) {}

  const Batch& batch() const { return batch_; }
  Exchange& exchange() { return exchange_; }
  std::int64_t items() const { return items_; }

  /// Calls use(const ScoreRows&) for each part in turn. Collective within the model-parallel group.
  template <class Use>
  void for_each_part(Use&& use) {
    const auto items = static_cast<std::int32_t>(items_);
    if (weight_ == nullptr) return use(ScoreRows{hidden_.values(), stride_, 0, part_, items});
    const DType dtype = device_.dtype();
    float* values = device_.scratch_.get<float>(Scratch::logits, part_ * stride_, "scores of held-out users");
    const auto* rows = static_cast<const std::byte*>(exchange_.gather(hidden_, dtype));
    for (std::int64_t first = 0; first < batch_.users(); first += part_) {
      // Of output tables with their padding, whose weights and biases are zero: cuBLASLt's kernels for Hopper
      // require a multiple of 8.
      const MatmulSpec spec{.m = std::min(part_, batch_.users() - first),
                            .n = weight_->transposed ? items_ : stride_,
                            .k = hidden_.columns(),
                            .b_transposed = weight_->transposed,
                            .lda = hidden_.stride(),
                            .ldb = weight_->stride,
                            .ldc = stride_,
                            .bias = true,
                            .operands = dtype,
                            .result = DType::fp32};
      const std::byte* hidden = rows + first * hidden_.stride() * size_of(dtype);
      if (items_ > 0) device_.matmuls_.run(device_.stream_, spec, hidden, weights_, values, bias_);
      use(ScoreRows{values, stride_, first, spec.m, items});
    }
  }

 private:
  Device& device_;
  const Batch& batch_;
  Exchange exchange_;
  const Matrix& hidden_;                  // or the scores of a matrix between items
  const TensorLayout* weight_ = nullptr;  // null: scores are given
  const void* weights_ = nullptr;
  const float* bias_ = nullptr;
  std::int64_t items_;
  std::int64_t stride_;
  std::int64_t part_ = 0;  // users
};

}  // namespace vaecf::cuda
