#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <stdexcept>

#include "device/cpu/device.hpp"
#include "device/cpu/layers/output_block.hpp"
#include "device/cpu/storage.hpp"

namespace vaecf::cpu {

/// Computes a block of the output layer by fp32 products of `engines`, one per thread, in tiles of items. In
/// bf16, each product operand is rounded first. Derived classes compute the gradient by the logits.
///
/// Pass 2 computes a tile of that gradient in cache. It uses the gradient for dW and for this thread's part
/// of d_hidden. dW is written tile by tile, or applied to the weights once d_hidden has used them.
class ProductBlock : protected OutputBlock, public LossBlock {
 public:
  void backward(Range items, const GradientSink& sink) override {
    const Range tiles{items.begin / tile_items, (items.end + tile_items - 1) / tile_items};
    gradient_.accumulate = !sink.first_block;  // before packing: the layout belongs to the whole spec
    if (tiles.begin == 0) {
      if (sink.of_weights()) engines_[0]->pack(gradient_, w_.hidden.data(), w_.gradient_operand);
      for (PerThread& t : w_.threads) {
        if (sink.of_hidden()) std::fill_n(t.d_hidden.data(), width_ * k_, 0.0F);
        if (sink.stays_in_cache()) t.d_weights.reserve(tile_items * k_);
      }
    }
    parallel_for(threads_, tiles.size(),
                 [&](int thread, std::int64_t t) { backward_tile(thread, tiles.begin + t, sink); });
  }

  void finish_hidden_gradient(float* d_hidden) const override {
    parallel_for(threads_, users_.size(), [&](int, std::int64_t u) {
      float* row = d_hidden + (users_.begin + u) * k_;
      std::copy_n(w_.threads[0].d_hidden.data() + u * k_, k_, row);
      for (std::size_t t = 1; t < w_.threads.size(); ++t)
        add(row, w_.threads[t].d_hidden.data() + u * k_, k_);
    });
  }

 protected:
  using PerThread = Workspace::PerThread;

  ProductBlock(std::span<const std::unique_ptr<GemmEngine>> engines, Workspace& workspace,
               const OutputBlock& block)
      : OutputBlock(block),
        engines_(engines),
        w_(workspace),
        rounds_(weights16_ != nullptr),
        tiles_((items_ + tile_items - 1) / tile_items),
        width_((users_.size() + 3) / 4 * 4) {
    if (!batch_.has_transpose) throw std::logic_error("output layer: the batch must have its transpose");
    w_.hidden.reserve(width_ * k_);
    for (PerThread& t : w_.threads) {
      t.logits.reserve(tile_items * width_);
      t.d_hidden.reserve(width_ * k_);
      if (rounds_) t.fp32_weights.reserve(tile_items * k_);
    }
    forward_ = {.m = tile_items, .n = width_, .k = k_, .b_transposed = true};
    gradient_ = {.m = tile_items, .n = k_, .k = width_};
    hidden_gradient_ = {.m = width_, .n = k_, .k = tile_items, .a_transposed = true, .accumulate = true};
  }

  /// Prepares the hidden units as operand of forward_product(). Rows of absent users (width is a multiple of
  /// 4) are zero: their logits are the bias.
  void load_hidden() {
    float* to = w_.hidden.data();
    parallel_for(threads_, users_.size(), [&](int, std::int64_t u) {
      std::copy_n(hidden(u), k_, to + u * k_);
      round(to + u * k_, k_);
    });
    std::fill_n(to + users_.size() * k_, (width_ - users_.size()) * k_, 0.0F);
    engines_[0]->pack(forward_, to, w_.forward_operand);
  }

  /// Writes the transposed logits (tile_items, width) of tile `t`, without bias, to the thread's `logits`.
  void forward_product(int thread, std::int64_t t) {
    PerThread& mine = w_.threads[thread];
    engines_[thread]->run_packed(forward_, weights_of(mine, t), w_.forward_operand, mine.logits.data());
  }

  /// Prepares the thread's `logits` for gradient_of_item() of tile `t`.
  virtual void start_tile(int /*thread*/, std::int64_t /*t*/) {}
  /// Writes the loss's gradient by the logits of row `r` of tile `t` to `row` (width), which is that row of
  /// the thread's `logits`; 0 for absent users.
  virtual void gradient_of_item(int thread, std::int64_t t, std::int64_t r, float* row) = 0;

  std::int64_t rows_of(std::int64_t tile) const { return std::min(tile_items, items_ - tile * tile_items); }

  /// Rounds to the precision of a product operand.
  void round(float* values, std::int64_t n) const {
    if (rounds_) round_to_bf16(values, n);
  }
  const float* weights_of(PerThread& mine, std::int64_t tile) const {
    if (!rounds_) return weights_ + tile * tile_items * k_;
    to_fp32(weights16_ + tile * tile_items * k_, mine.fp32_weights.data(), tile_items * k_);
    return mine.fp32_weights.data();
  }

  std::span<const std::unique_ptr<GemmEngine>> engines_;
  Workspace& w_;
  bool rounds_;
  std::int64_t tiles_;
  std::int64_t width_;

 private:
  void backward_tile(int thread, std::int64_t t, const GradientSink& sink) {
    PerThread& mine = w_.threads[thread];
    const std::int64_t rows = rows_of(t);
    const std::int64_t first = sink.weight.range.begin + t * tile_items * k_;
    float* d_weights = sink.stays_in_cache() ? mine.d_weights.data() : sink.gradients + first;
    float d_bias[tile_items];
    float* gradient = mine.logits.data();
    start_tile(thread, t);
    for (std::int64_t r = 0; r < rows; ++r) {
      float* row = gradient + r * width_;
      gradient_of_item(thread, t, r, row);
      d_bias[r] = sum_of_row(row, width_);
      round(row, width_);
    }
    std::fill_n(gradient + rows * width_, (tile_items - rows) * width_, 0.0F);
    if (sink.of_weights()) engines_[thread]->run_packed(gradient_, gradient, w_.gradient_operand, d_weights);
    if (sink.of_hidden()) {
      engines_[thread]->run(hidden_gradient_, gradient, weights_of(mine, t), mine.d_hidden.data());
    }
    if (!sink.of_weights()) return;
    if (sink.updates()) sink.update(sink.weight, first, d_weights, rows * k_);
    sink.take(sink.bias, sink.bias.range.begin + t * tile_items, d_bias, rows);
  }

  GemmSpec forward_, gradient_, hidden_gradient_;
};

}  // namespace vaecf::cpu
