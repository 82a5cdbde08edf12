#include <vaecf/base/half_precision.hpp>
#include <vaecf/math/loss.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "device/cpu/operations/output_layer.hpp"

namespace vaecf::cpu {
namespace {

/// Maximum of logit - reference: e^40 times the number of items, and the inverse times a hidden value, are
/// normal numbers in bf16.
constexpr float max_excess = 40.0F;
/// Minimum of s_u, which would underflow where all logits of another item slice are far greater. Then
/// s_u E is nothing, and s_u x / s_u is x.
constexpr float min_factor = 1e-30F;
/// A logit or reference whose exponential is 0.
constexpr float far = 3e38F;
/// Number of blocks of items whose E and weights stay in the L1 and L2 caches while d_hidden is streamed.
constexpr std::int64_t chunk_blocks = 8;

/// Computes the output layer in bf16 by a custom kernel, in blocks of 32 items. Each pass reads
/// the weights once.
///
/// Pass 1 computes tiles of transposed logits (items x users) and stores E = exp(logit - m_u) in bf16. The
/// reference m_u is chosen before the pass: the user's largest logit among the first items. One factor per
/// user, s_u = N_u / (sum of E), turns E into the gradient N_u softmax - x = s_u (E - x / s_u), so E itself
/// is never scaled. If a user's logits exceed the reference so far that exponentials could overflow, the pass
/// is repeated with the largest logits as references.
///
/// Pass 2 subtracts x / s_u at the few positions where x is 1. For each chunk of blocks it computes dW = E^T
/// (s H), with s as an additional column for the bias, and d_hidden = s (E W). Complete gradients go to the
/// sink from cache.
class TileSoftmax : private TileOperands, public OutputBlock {
 public:
  TileSoftmax(const TileKernels& kernels, Workspace& workspace, const OutputOperands& operands)
      : TileOperands(kernels, workspace, operands), blocks_(tiles_for(items_)) {
    if (!batch_.has_transpose) throw std::logic_error("output_layer_step: the batch must have its transpose");
    const auto width = static_cast<std::size_t>(user_tiles_ * tile_side);
    w_.reference.resize(width);
    w_.factor.reserve(user_tiles_ * tile_side);
    for (PerThread& t : w_.threads) {
      t.weights.reserve(k_tiles_ * tile_numbers);
      t.logits.reserve(tile_numbers);
      t.sum.resize(width);
      t.positive_logits.reserve(user_tiles_ * tile_side);
      t.largest.resize(width);
    }
  }

  void forward() override {
    w_.e16.reserve(blocks_ * user_tiles_ * tile_numbers);
    load_hidden();
    init_reference_logits();
    run_pass();
    if (raise_reference_logits()) run_pass();
    nll_ = finish_softmax();
  }
  double loss() const override { return nll_; }

  void backward(Range items, const GradientSink& sink) override {
    const Range blocks{items.begin / tile_side, tiles_for(items.end)};
    if (blocks.begin == 0) {
      if (sink.of_weights()) scale_hidden();
      for (PerThread& t : w_.threads) {
        t.weights.reserve(chunk_blocks * k_tiles_ * tile_numbers);
        t.e.reserve(chunk_blocks * user_tiles_ * tile_numbers);
        t.d_hidden.reserve(user_tiles_ * k_tiles_ * tile_numbers);
        t.d_weights.reserve(tile_side * k_);
        if (sink.of_hidden()) std::fill_n(t.d_hidden.data(), user_tiles_ * k_tiles_ * tile_numbers, 0.0F);
      }
    }
    parallel_for_static(threads_, blocks.size(), 1, [&](int thread, Range part) {
      const TileScope scope(kernels_);
      PerThread& mine = w_.threads[thread];
      const std::int64_t chunks = (part.size() + chunk_blocks - 1) / chunk_blocks;
      for (std::int64_t c = 0; c < chunks; ++c) {
        const Range chunk{blocks.begin + part.begin + part.size() * c / chunks,
                          blocks.begin + part.begin + part.size() * (c + 1) / chunks};
        for (std::int64_t b = chunk.begin; b < chunk.end; ++b) subtract_positive_items(b);
        if (sink.of_hidden()) add_hidden_gradient(mine, chunk);
        for (std::int64_t b = chunk.begin; b < chunk.end && sink.of_weights(); ++b) {
          weight_gradient(mine, b, sink);
        }
      }
    });
  }

  void finish_hidden_gradient(float* d_hidden) const override {
    parallel_for(threads_, users_.size(), [&](int, std::int64_t u) {
      float* row = d_hidden + (users_.begin + u) * k_;
      const std::int64_t place = u / tile_side * tile_numbers + u % tile_side * tile_side;
      for (std::int64_t k = 0; k < k_; ++k) {
        const std::int64_t i = place + k / tile_side * user_tiles_ * tile_numbers + k % tile_side;
        float sum = 0.0F;
        for (const PerThread& t : w_.threads) sum += t.d_hidden[i];
        row[k] = w_.factor[u] * sum;
      }
    });
  }

 private:
  std::int64_t rows_of(std::int64_t block) const { return std::min(tile_side, items_ - block * tile_side); }

  std::uint16_t* exponentials(std::int64_t block) const {
    return w_.e16.data() + block * user_tiles_ * tile_numbers;
  }

  void load_hidden() {
    for_each(user_tiles_, [&](PerThread& mine, std::int64_t u) {
      std::uint16_t* tile = mine.bf16.data();
      for (std::int64_t k = 0; k < k_tiles_; ++k) {
        copy_hidden(u, k, tile);
        kernels_.transpose(tile, tile + tile_numbers);
        kernels_.pair(tile + tile_numbers, w_.hidden16.data() + (u * k_tiles_ + k) * tile_numbers);
      }
    });
  }

  // Sets each reference to the user's largest logit among the first items; absent users get one that makes
  // all their exponentials 0.
  void init_reference_logits() {
    if (items_ == 0) {
      std::ranges::fill(w_.reference, math::SoftmaxPart<double>{}.maximum);
      return;
    }
    parallel_for_static(threads_, user_tiles_, 1, [&](int thread, Range part) {
      const TileScope scope(kernels_);
      PerThread& mine = w_.threads[thread];
      for (std::int64_t k = 0; k < k_tiles_; ++k) pack_weights(0, k, mine.weights.data() + k * tile_numbers);
      for (std::int64_t u = part.begin; u < part.end; ++u) {
        kernels_.multiply({.a = mine.weights.data(),
                           .b = w_.hidden16.data() + u * k_tiles_ * tile_numbers,
                           .c = mine.logits.data(),
                           .reduced = k_});
        for (std::int64_t c = 0; c < tile_side; ++c) {
          float largest = -std::numeric_limits<float>::infinity();
          for (std::int64_t r = 0; r < rows_of(0); ++r)
            largest = std::max(largest, mine.logits[r * tile_side + c] + bias_[r]);
          const std::int64_t user = u * tile_side + c;
          w_.reference[user] = user < users_.size() ? largest : far;
        }
      }
    });
  }

  void run_pass() {
    for (PerThread& t : w_.threads) {
      std::fill(t.sum.begin(), t.sum.end(), 0.0);
      std::fill_n(t.positive_logits.data(), users_.size(), 0.0);
      std::fill(t.largest.begin(), t.largest.end(), -far);
    }
    for_each(blocks_, [&](PerThread& mine, std::int64_t b) { forward_block(mine, b); });
  }

  // Returns whether exponentials of a user may have overflowed, so that pass 1 must be repeated; raises the
  // references in that case.
  bool raise_reference_logits() {
    std::vector<float> largest(static_cast<std::size_t>(users_.size()), -far);
    bool raise = false;
    for (std::int64_t u = 0; u < users_.size(); ++u) {
      for (const PerThread& t : w_.threads) largest[u] = std::max(largest[u], t.largest[u]);
      raise = raise || largest[u] > max_excess;
    }
    if (!raise) return false;
    for (std::int64_t u = 0; u < users_.size(); ++u) w_.reference[u] += std::max(largest[u], 0.0F);
    return true;
  }

  // Sorts the positions of the block's interactions within its tiles, row * 32 + column, by user tile, and
  // their values.
  void sort_positive_items(PerThread& mine, std::int64_t block) const {
    mine.positives_begin.assign(static_cast<std::size_t>(user_tiles_ + 1), 0);
    const auto for_each = [&](auto&& use) {
      for (std::int64_t r = 0; r < rows_of(block); ++r) {
        for_users_of(block * tile_side + r, [&](std::int64_t u, float value) {
          use(u / tile_side, r * tile_side + u % tile_side, value);
        });
      }
    };
    for_each([&](std::int64_t tile, std::int64_t, float) { ++mine.positives_begin[tile]; });
    std::int32_t end = 0;
    for (std::int32_t& begin : mine.positives_begin) begin = end += begin;
    mine.positives.resize(static_cast<std::size_t>(end));
    mine.positive_values.resize(batch_.item_values.empty() ? 0 : mine.positives.size());
    // Filled from each tile's end, so that positives_begin ends as its beginning.
    for_each([&](std::int64_t tile, std::int64_t place, float value) {
      const std::int32_t to = --mine.positives_begin[tile];
      mine.positives[to] = static_cast<std::uint16_t>(place);
      if (!mine.positive_values.empty()) mine.positive_values[to] = value;
    });
  }

  void forward_block(PerThread& mine, std::int64_t block) {
    for (std::int64_t k = 0; k < k_tiles_; ++k)
      pack_weights(block, k, mine.weights.data() + k * tile_numbers);
    sort_positive_items(mine, block);
    alignas(64) float bias[tile_side];
    std::fill_n(bias, tile_side, -far);
    std::copy_n(bias_ + block * tile_side, rows_of(block), bias);
    const char* next = reinterpret_cast<const char*>(weights16_ + (block + 1) * tile_side * k_);
    const std::int64_t next_bytes = block + 1 < blocks_ ? tile_side * k_ * 2 : 0;
    for (std::int64_t u = 0; u < user_tiles_; ++u) {
      const float* logits = mine.logits.data();
      kernels_.multiply({.a = mine.weights.data(),
                         .b = w_.hidden16.data() + u * k_tiles_ * tile_numbers,
                         .c = mine.logits.data(),
                         .reduced = k_,
                         .prefetch = next + next_bytes * u / user_tiles_,
                         .prefetch_bytes = next_bytes / user_tiles_});
      const std::int64_t user = u * tile_side;
      for (std::int32_t i = mine.positives_begin[u]; i < mine.positives_begin[u + 1]; ++i) {
        const int place = mine.positives[i];
        const double value = value_at(mine.positive_values, static_cast<std::size_t>(i));
        mine.positive_logits[user + place % tile_side] += value * (logits[place] + bias[place / tile_side]);
      }
      std::uint16_t* e = exponentials(block) + u * tile_numbers;
      alignas(64) float sum[tile_side] = {};
      kernels_.exponentials(logits, bias, w_.reference.data() + user, e, sum, mine.largest.data() + user);
      for (std::int64_t c = 0; c < tile_side; ++c) mine.sum[user + c] += static_cast<double>(sum[c]);
    }
  }

  double finish_softmax() {
    std::vector<math::SoftmaxPart<double>> all(static_cast<std::size_t>(users_.size()));
    for (std::int64_t u = 0; u < users_.size(); ++u) {
      all[u].maximum = w_.reference[u];
      for (const PerThread& t : w_.threads) all[u].sum += t.sum[u];
    }
    merge_over_item_slices(batch_.model_parallel(), all);
    double total = 0.0;
    for (std::int64_t u = 0; u < users_.size(); ++u) {
      const RowTotals& totals = totals_of_user(u);
      const float scale =
          math::softmax_scale(totals.sum, all[u]) * std::exp(w_.reference[u] - all[u].maximum);
      w_.factor[u] = totals.sum == 0.0F ? 0.0F : std::max(scale, min_factor);
      double own = 0.0;
      for (const PerThread& t : w_.threads) own += t.positive_logits[u];
      total += math::nll(totals.part, all[u], own);
    }
    return total;
  }

  // Writes s H, with s itself as column K.
  void scale_hidden() {
    const std::int64_t tiles = tiles_for(k_ + 1);
    w_.weighted_hidden.reserve(tiles * user_tiles_ * tile_numbers);
    for_each(user_tiles_, [&](PerThread& mine, std::int64_t u) {
      std::uint16_t* tile = mine.bf16.data();
      float row[tile_side];
      for (std::int64_t k = 0; k < tiles; ++k) {
        std::fill_n(tile, tile_numbers, std::uint16_t{0});
        for (std::int64_t r = 0; r < std::min(tile_side, users_.size() - u * tile_side); ++r) {
          const float s = w_.factor[u * tile_side + r];
          const float* from = hidden(u * tile_side + r);
          for (std::int64_t c = 0; c < tile_side; ++c) {
            const std::int64_t column = k * tile_side + c;
            row[c] = column < k_ ? s * from[column] : column == k_ ? s : 0.0F;
          }
          to_bf16(row, tile + r * tile_side, tile_side);
        }
        kernels_.pair(tile, w_.weighted_hidden.data() + (k * user_tiles_ + u) * tile_numbers);
      }
    });
  }

  // Subtracts x / s from E.
  void subtract_positive_items(std::int64_t block) const {
    std::uint16_t* e = exponentials(block);
    for (std::int64_t r = 0; r < rows_of(block); ++r) {
      for_users_of(block * tile_side + r, [&](std::int64_t u, float x) {
        std::uint16_t& value = e[u / tile_side * tile_numbers + r * tile_side + u % tile_side];
        value = vaecf::to_bf16(vaecf::from_bf16(value) - x / w_.factor[u]);
      });
    }
  }

  void add_hidden_gradient(PerThread& mine, Range chunk) const {
    const std::int64_t n = chunk.size();
    for (std::int64_t j = 0; j < n; ++j) {
      const std::int64_t block = chunk.begin + j;
      for (std::int64_t u = 0; u < user_tiles_; ++u) {
        kernels_.transpose(exponentials(block) + u * tile_numbers,
                           mine.e.data() + (u * n + j) * tile_numbers);
      }
      for (std::int64_t k = 0; k < k_tiles_; ++k) {
        pack_weights(block, k, mine.bf16.data());
        kernels_.pair(mine.bf16.data(), mine.weights.data() + (k * n + j) * tile_numbers);
      }
    }
    // Larger than the L1 and L2 caches, so each tile is prefetched while the one before it is processed.
    constexpr std::int64_t tile_bytes = tile_numbers * 4;
    const auto place = [&](std::int64_t u, std::int64_t k) {
      return mine.d_hidden.data() + (k * user_tiles_ + u) * tile_numbers;
    };
    for (std::int64_t k = 0; k < k_tiles_; ++k) {
      for (std::int64_t u = 0; u < user_tiles_; ++u) {
        kernels_.multiply({.a = mine.e.data() + u * n * tile_numbers,
                           .b = mine.weights.data() + k * n * tile_numbers,
                           .c = place(u, k),
                           .reduced = (n - 1) * tile_side + rows_of(chunk.end - 1),
                           .rows = std::min(tile_side, users_.size() - u * tile_side),
                           .accumulate = true,
                           .prefetch = place(u + 1, k),
                           .prefetch_bytes = u + 1 < user_tiles_ ? tile_bytes : 0});
      }
    }
  }

  void weight_gradient(PerThread& mine, std::int64_t block, const GradientSink& sink) const {
    const std::int64_t rows = rows_of(block);
    const std::int64_t first = sink.weight.range.begin + block * tile_side * k_;
    const std::int64_t tiles = tiles_for(k_ + 1);
    float* d_weights = mine.d_weights.data();
    PrefetchQueue prefetches;
    sink.prefetch(first, rows * k_, prefetches);
    if (block + chunk_blocks < blocks_) {
      prefetches.add(weights16_ + (block + chunk_blocks) * tile_side * k_, tile_side * k_ * 2);
      prefetches.add(exponentials(block + chunk_blocks), user_tiles_ * tile_numbers * 2);
    }
    for (std::int64_t k = 0; k < tiles; ++k) {
      const PrefetchQueue::Chunk piece = prefetches.next(tiles - k);
      const std::int64_t columns = std::clamp<std::int64_t>(k_ - k * tile_side, 0, tile_side);
      float* edge = mine.logits.data();
      kernels_.multiply({.a = exponentials(block),
                         .b = w_.weighted_hidden.data() + k * user_tiles_ * tile_numbers,
                         .c = columns == tile_side ? d_weights + k * tile_side : edge,
                         .reduced = users_.size(),
                         .stride = columns == tile_side ? k_ : tile_side,
                         .prefetch = piece.data(),
                         .prefetch_bytes = std::ssize(piece)});
      if (columns == tile_side) continue;
      for (std::int64_t r = 0; r < tile_side; ++r) {
        std::copy_n(edge + r * tile_side, columns, d_weights + r * k_ + k * tile_side);
      }
    }
    alignas(64) float d_bias[tile_side];
    for (std::int64_t r = 0; r < tile_side; ++r) d_bias[r] = mine.logits[r * tile_side + k_ % tile_side];
    sink.take(sink.weight, first, d_weights, rows * k_);
    sink.take(sink.bias, sink.bias.range.begin + block * tile_side, d_bias, rows);
  }

  std::int64_t blocks_;
  double nll_ = 0.0;
};

}  // namespace

std::unique_ptr<OutputBlock> make_tile_softmax(const TileKernels& kernels, Workspace& workspace,
                                               const OutputOperands& operands) {
  return std::make_unique<TileSoftmax>(kernels, workspace, operands);
}

}  // namespace vaecf::cpu
