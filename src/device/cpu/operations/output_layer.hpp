#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "device/cpu/device.hpp"
#include "device/cpu/kernels/tiles.hpp"
#include "device/cpu/kernels/vector_kernels.hpp"
#include "device/cpu/parallel.hpp"
#include "device/cpu/storage.hpp"

namespace vaecf::cpu {

/// The operands of the output layer for a block of users of a batch. User indices start at its first user.
class OutputOperands {
 public:
  /// `hidden` has the hidden units (batch users, K) of all users of the batch.
  OutputOperands(int threads, const float* hidden, const Batch& batch, const Parameters& parameters,
                 Layer layer, Range users)
      : threads_(threads),
        hidden_(hidden),
        batch_(batch),
        users_(users),
        k_(parameters.layout().tensors[layer.weight].spec.rows),
        items_(parameters.layout().tensors[layer.weight].spec.columns),
        bias_(parameters.weights(layer.bias)),
        weights_(parameters.weights(layer.weight)),
        weights16_(parameters.copied().size() == 0
                       ? nullptr
                       : static_cast<const std::uint16_t*>(parameters.operand(layer.weight))) {}

 protected:
  const float* hidden(std::int64_t user) const { return hidden_ + (users_.begin + user) * k_; }
  const RowTotals& totals_of_user(std::int64_t user) const { return batch_.totals[users_.begin + user]; }
  /// Calls use(user, value) for the block's users of an item and their values. The batch must have its
  /// transpose.
  template <class Use>
  void for_users_of(std::int64_t item, Use&& use) const {
    for (std::int32_t i = batch_.item_begin[item]; i < batch_.item_begin[item + 1]; ++i) {
      const std::int64_t u = batch_.item_users[i] - users_.begin;
      if (u >= 0 && u < users_.size()) use(u, value_at(batch_.item_values, static_cast<std::size_t>(i)));
    }
  }

  int threads_;
  const float* hidden_;
  const Batch& batch_;
  Range users_;
  std::int64_t k_;
  std::int64_t items_;
  const float* bias_;
  const float* weights_;            // (padded items, K)
  const std::uint16_t* weights16_;  // (padded items, K) in bf16; null in fp32
};

/// The operands of a block for the output layer's custom kernel.
class TileOperands : protected OutputOperands {
 protected:
  using PerThread = Workspace::PerThread;

  TileOperands(const TileKernels& kernels, Workspace& workspace, const OutputOperands& operands)
      : OutputOperands(operands),
        kernels_(kernels),
        w_(workspace),
        k_tiles_(tiles_for(k_)),
        user_tiles_(tiles_for(users_.size())) {
    w_.hidden16.reserve(user_tiles_ * k_tiles_ * tile_numbers);
    for (PerThread& t : w_.threads) t.bf16.reserve(2 * tile_numbers);
  }

  /// Calls f(this thread's memory, i) for each i of [0, n), between enter() and leave() of the kernels.
  template <class F>
  void for_each(std::int64_t n, F&& f) const {
    parallel_for_static(threads_, n, 1, [&](int thread, Range part) {
      const TileScope scope(kernels_);
      for (std::int64_t i = part.begin; i < part.end; ++i) f(w_.threads[thread], i);
    });
  }

  /// Writes a tile of hidden units in bf16: row-major (users, K), padded with zeros.
  void copy_hidden(std::int64_t user_tile, std::int64_t k_tile, std::uint16_t* tile) const {
    const std::int64_t first = user_tile * tile_side;
    const std::int64_t columns = std::min(tile_side, k_ - k_tile * tile_side);
    std::fill_n(tile, tile_numbers, std::uint16_t{0});
    for (std::int64_t r = 0; r < std::min(tile_side, users_.size() - first); ++r) {
      to_bf16(hidden(first + r) + k_tile * tile_side, tile + r * tile_side, columns);
    }
  }
  /// Writes a tile of a block's weights: row-major (items, K), padded with zeros along K; item rows are
  /// padded in storage.
  void pack_weights(std::int64_t block, std::int64_t k_tile, std::uint16_t* tile) const {
    const std::int64_t columns = std::min(tile_side, k_ - k_tile * tile_side);
    const std::uint16_t* from = weights16_ + block * tile_side * k_ + k_tile * tile_side;
    for (std::int64_t r = 0; r < tile_side; ++r, tile += tile_side, from += k_) {
      if (columns == tile_side) {
        std::memcpy(tile, from, 2 * tile_side);  // constant size: compiles to a few instructions
      } else {
        std::copy_n(from, columns, tile);
        std::fill_n(tile + columns, tile_side - columns, std::uint16_t{0});
      }
    }
  }

  const TileKernels& kernels_;
  Workspace& w_;
  std::int64_t k_tiles_;
  std::int64_t user_tiles_;
};

/// Queue of memory ranges to be prefetched in even chunks.
class PrefetchQueue {
 public:
  using Chunk = std::span<const char>;

  void add(const void* from, std::int64_t bytes) {
    left_[count_++] = {static_cast<const char*>(from), static_cast<std::size_t>(bytes)};
    bytes_ += bytes;
  }
  /// Returns the first of `parts` chunks of the remaining memory, or its part in the current range.
  Chunk next(std::int64_t parts) {
    if (at_ == count_) return {};
    const Chunk piece =
        left_[at_].first(std::min(left_[at_].size(), static_cast<std::size_t>(bytes_ / parts + 1)));
    left_[at_] = left_[at_].subspan(piece.size());
    bytes_ -= std::ssize(piece);
    if (left_[at_].empty()) ++at_;
    return piece;
  }

 private:
  std::array<Chunk, 6> left_;
  std::size_t count_ = 0;
  std::size_t at_ = 0;
  std::int64_t bytes_ = 0;
};

/// Receives the gradients of weights and bias, and adds those of all blocks of users in the flat buffer.
/// After the last block, reports them or, in a fused update, updates the weights from the flat buffer or
/// directly from cache.
struct GradientSink {
  const Backward& backward;
  const TensorLayout& weight;
  const TensorLayout& bias;
  OutputGradients which;
  std::int64_t all_users;  // of the batch
  Range users;             // the block whose gradients it receives

  bool of_hidden() const { return which != OutputGradients::weights; }
  bool of_weights() const { return which != OutputGradients::hidden; }
  bool adds() const { return users.begin > 0; }
  bool completes() const { return users.end == all_users; }
  bool updates() const { return backward.fused != nullptr && completes(); }
  /// Returns whether the flat gradient is not needed, because the complete gradient is in cache.
  bool stays_in_cache() const { return updates() && !adds(); }
  float* flat(std::int64_t begin) const { return backward.gradients.data() + begin; }

  /// Updates the `n` flat elements from `begin`; `gradient` is their gradient.
  void update(const TensorLayout& tensor, std::int64_t begin, const float* gradient, std::int64_t n) const {
    const FusedUpdate& fused = *backward.fused;
    Parameters& p = fused.parameters;
    update_elements(own<StepState>(backward.step).rule(tensor.spec.decays), gradient,
                    fused.first_moment.data() + begin, fused.second_moment.data() + begin,
                    p.master().data() + begin, p.copy_of(begin), n);
  }

  /// Adds this block's gradient of the `n` flat elements from `begin`; overwrites `block`.
  void take(const TensorLayout& tensor, std::int64_t begin, float* block, std::int64_t n) const {
    if (updates()) {
      if (adds()) add(block, flat(begin), n);
      update(tensor, begin, block, n);
    } else if (adds()) {
      add(flat(begin), block, n);
    } else {
      std::copy_n(block, n, flat(begin));
    }
  }

  /// Adds all memory that take() will read for these elements.
  void prefetch(std::int64_t begin, std::int64_t n, PrefetchQueue& queue) const {
    if (adds()) queue.add(flat(begin), n * 4);
    if (!updates()) return;
    const FusedUpdate& fused = *backward.fused;
    for (const Buffer* buffer : {&fused.parameters.master(), &fused.first_moment, &fused.second_moment})
      queue.add(buffer->data() + begin, n * 4);
  }

  void report(Range range) const {
    if (backward.ready && backward.fused == nullptr && range.size() > 0) backward.ready(range, {});
  }

  void take_zeros() const {
    if (!of_weights()) return;
    for (const auto* tensor : {&weight, &bias}) {
      const Range range = tensor->range;
      std::fill_n(flat(range.begin), range.size(), 0.0F);
      if (backward.fused != nullptr) update(*tensor, range.begin, flat(range.begin), range.size());
      report(range);
    }
  }

  /// Calls write(items) for ranges of whole tiles of the items, whose gradients it then reports: several per
  /// thread together, about the size of a bucket.
  template <class Write>
  void take_items(int threads, Write&& write) const {
    const std::int64_t items = weight.spec.columns;
    const bool reports = backward.ready && completes() && of_weights() && items > 0;
    const std::int64_t at_once = reports ? std::max<std::int64_t>(16, 4 * threads) * tile_items : items;
    std::int64_t i = 0;
    do {
      const Range some{i, std::min(i + at_once, items)};
      write(some);
      i = some.end;
      const auto place = [&](std::int64_t item) { return weight.range.begin + item * weight.stride; };
      if (reports) report({place(some.begin), i == items ? weight.range.end : place(i)});
    } while (i < items);
    if (reports) report(bias.range);
  }
};

/// The output layer and its loss for a block of users, in two passes over the items. With softmax,
/// exponentials of the first pass become gradients in the second; with the squared error, nothing depends on
/// a whole row of logits, so the first pass only prepares operands. SoftmaxBlock uses library products,
/// TileSoftmax a custom kernel. They do not share a loop over items, because sums would round differently.
/// SoftmaxBlock scales E by a factor per tile and user before the products and adds later blocks within them.
/// TileSoftmax has one factor per user, moves it from E to the hidden units, and adds blocks in the sink.
class OutputBlock {
 public:
  virtual ~OutputBlock() = default;
  /// Runs pass 1: logits and softmax. Collective, since softmax needs the sums of all item slices.
  virtual void forward() = 0;
  /// Runs pass 2 for `items`: whole tiles of tile_items, except for the last one. The range that starts at 0
  /// must come first.
  virtual void backward(Range items, const GradientSink& sink) = 0;
  /// Returns the sum of the users' losses from the items of this rank. Must be called after pass 2 of all
  /// items.
  virtual double loss() const = 0;
  /// Adds the threads' parts of the users' rows of d_hidden (batch users, K). Must be called after pass 2 of
  /// all items.
  virtual void finish_hidden_gradient(float* d_hidden) const = 0;
};

std::unique_ptr<OutputBlock> make_tile_softmax(const TileKernels& kernels, Workspace& workspace,
                                               const OutputOperands& operands);

}  // namespace vaecf::cpu
