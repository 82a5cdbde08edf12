#include "tile_softmax.hpp"

#include <vaecf/math/loss.hpp>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "parallel.hpp"

namespace vaecf::cpu {
namespace {

/// How far a logit may lie above its reference: e^40 times the items, and the inverse of that times a hidden
/// value, are ordinary numbers in bf16.
constexpr float largest_excess = 40.0F;
/// A logit or reference that leaves nothing of its exponential.
constexpr float far = 3e38F;

}  // namespace

TileSoftmax::TileSoftmax(const TileKernels& kernels, TileWorkspace& workspace, const OutputSlice& slice)
    : TileSlice(kernels, workspace, slice), blocks_(tiles_for(items_)), width_(user_tiles_ * tile_side) {
  if (!batch_.has_transpose) throw std::logic_error("the loss needs a batch cut with its transpose");
  const auto width = static_cast<std::size_t>(width_);
  w_.reference.resize(width);
  w_.factor.resize(width);
  for (PerThread& t : w_.threads) {
    t.weights.reserve(k_tiles_ * tile_numbers);
    t.logits.reserve(tile_numbers);
    t.sum.resize(width);
    t.own_logits.resize(width);
    t.largest.resize(width);
  }
}

std::int64_t TileSoftmax::rows_of(std::int64_t block) const {
  return std::min(tile_side, items_ - block * tile_side);
}

std::uint16_t* TileSoftmax::exponentials(std::int64_t block) const {
  return w_.e.data() + block * user_tiles_ * tile_numbers;
}

// Rows of items are padded in storage.
void TileSoftmax::pack_weights(std::int64_t block, std::int64_t tile, std::uint16_t* to) const {
  const std::uint16_t* from = weights16_ + block * tile_side * k_;
  copy_weights(
      tile_side, tile, [&](std::int64_t r) { return from + r * k_; }, to);
}

void TileSoftmax::load_hidden() {
  on_ranges(threads_, user_tiles_, 1, [&](int thread, Range part) {
    const TileScope scope(kernels_);
    std::uint16_t* tile = w_.threads[thread].tile.data();
    for (std::int64_t u = part.begin; u < part.end; ++u) {
      for (std::int64_t k = 0; k < k_tiles_; ++k) {
        copy_hidden(u, k, tile);
        kernels_.transpose(tile, tile + tile_numbers);
        kernels_.pair(tile + tile_numbers, w_.hidden.data() + (u * k_tiles_ + k) * tile_numbers);
      }
    }
  });
}

// The largest logit among the first items; absent users get one that leaves nothing of their exponentials.
void TileSoftmax::choose_references() {
  on_ranges(threads_, user_tiles_, 1, [&](int thread, Range part) {
    const TileScope scope(kernels_);
    PerThread& mine = w_.threads[thread];
    for (std::int64_t k = 0; k < k_tiles_; ++k) pack_weights(0, k, mine.weights.data() + k * tile_numbers);
    for (std::int64_t u = part.begin; u < part.end; ++u) {
      kernels_.multiply({.a = mine.weights.data(),
                         .b = w_.hidden.data() + u * k_tiles_ * tile_numbers,
                         .c = mine.logits.data(),
                         .reduced = k_});
      for (std::int64_t c = 0; c < tile_side; ++c) {
        float largest = -std::numeric_limits<float>::infinity();
        for (std::int64_t r = 0; r < rows_of(0); ++r)
          largest = std::max(largest, mine.logits.data()[r * tile_side + c] + bias_[r]);
        const std::int64_t user = u * tile_side + c;
        w_.reference[user] = user < users_.size() ? largest : far;
      }
    }
  });
}

double TileSoftmax::forward(bool keep_exponentials) {
  if (keep_exponentials) w_.e.reserve(blocks_ * user_tiles_ * tile_numbers);
  load_hidden();
  choose_references();
  run_pass(keep_exponentials);
  if (raise_references()) run_pass(keep_exponentials);
  return finish_softmax();
}

void TileSoftmax::run_pass(bool keep_exponentials) {
  for (PerThread& t : w_.threads) {
    std::fill(t.sum.begin(), t.sum.end(), 0.0);
    std::fill(t.own_logits.begin(), t.own_logits.end(), 0.0);
    std::fill(t.largest.begin(), t.largest.end(), -far);
  }
  on_ranges(threads_, blocks_, 1, [&](int thread, Range blocks) {
    const TileScope scope(kernels_);
    for (std::int64_t b = blocks.begin; b < blocks.end; ++b)
      forward_block(w_.threads[thread], b, keep_exponentials);
  });
}

// Whether a user's exponentials might have overflowed, and all have to be made again.
bool TileSoftmax::raise_references() {
  std::vector<float> largest(static_cast<std::size_t>(users_.size()), -far);
  bool raise = false;
  for (std::int64_t u = 0; u < users_.size(); ++u) {
    for (const PerThread& t : w_.threads) largest[u] = std::max(largest[u], t.largest[u]);
    raise = raise || largest[u] > largest_excess;
  }
  if (!raise) return false;
  for (std::int64_t u = 0; u < users_.size(); ++u) w_.reference[u] += std::max(largest[u], 0.0F);
  return true;
}

// Places of the block's interactions in its tiles, row * 32 + column, by user tile.
void TileSoftmax::sort_own_items(PerThread& mine, std::int64_t block) const {
  const std::int64_t first = block * tile_side;
  const std::int64_t last = first + rows_of(block);
  mine.own_begin.assign(static_cast<std::size_t>(user_tiles_ + 1), 0);
  const auto for_each = [&](auto&& use) {
    for (std::int64_t item = first; item < last; ++item) {
      for (std::int32_t e = batch_.item_begin[item]; e < batch_.item_begin[item + 1]; ++e) {
        const std::int64_t u = batch_.item_users[e] - users_.begin;
        if (u >= 0 && u < users_.size()) use(u / tile_side, (item - first) * tile_side + u % tile_side);
      }
    }
  };
  for_each([&](std::int64_t tile, std::int64_t) { ++mine.own_begin[tile]; });
  std::int32_t end = 0;
  for (std::int32_t& begin : mine.own_begin) begin = end += begin;
  mine.own.resize(static_cast<std::size_t>(end));
  // Filled from each tile's end, so that what is left is its beginning.
  for_each([&](std::int64_t tile, std::int64_t place) {
    mine.own[--mine.own_begin[tile]] = static_cast<std::uint16_t>(place);
  });
}

void TileSoftmax::forward_block(PerThread& mine, std::int64_t block, bool keep_exponentials) {
  for (std::int64_t k = 0; k < k_tiles_; ++k) pack_weights(block, k, mine.weights.data() + k * tile_numbers);
  sort_own_items(mine, block);
  alignas(64) float bias[tile_side];
  std::fill_n(bias, tile_side, -far);
  std::copy_n(bias_ + block * tile_side, rows_of(block), bias);
  const char* next = reinterpret_cast<const char*>(weights16_ + (block + 1) * tile_side * k_);
  const std::int64_t next_bytes = block + 1 < blocks_ ? tile_side * k_ * 2 : 0;
  for (std::int64_t u = 0; u < user_tiles_; ++u) {
    const float* logits = mine.logits.data();
    kernels_.multiply({.a = mine.weights.data(),
                       .b = w_.hidden.data() + u * k_tiles_ * tile_numbers,
                       .c = mine.logits.data(),
                       .reduced = k_,
                       .ahead = next + next_bytes * u / user_tiles_,
                       .ahead_bytes = next_bytes / user_tiles_});
    const std::int64_t user = u * tile_side;
    for (std::int32_t i = mine.own_begin[u]; i < mine.own_begin[u + 1]; ++i) {
      const int place = mine.own[i];
      mine.own_logits[user + place % tile_side] += logits[place] + bias[place / tile_side];
    }
    std::uint16_t* e = keep_exponentials ? exponentials(block) + u * tile_numbers : mine.tile.data();
    alignas(64) float sum[tile_side] = {};
    kernels_.exponentials(logits, bias, w_.reference.data() + user, e, sum, mine.largest.data() + user);
    for (std::int64_t c = 0; c < tile_side; ++c) mine.sum[user + c] += static_cast<double>(sum[c]);
  }
}

double TileSoftmax::finish_softmax() {
  std::fill(w_.factor.begin(), w_.factor.end(), 0.0F);
  double total = 0.0;
  for (std::int64_t u = 0; u < users_.size(); ++u) {
    const std::int64_t count = batch_.rows().row_size(users_.begin + u);
    math::SoftmaxPart<double> all{.maximum = w_.reference[u]};
    double own = 0.0;
    for (const PerThread& t : w_.threads) {
      all.sum += t.sum[u];
      own += t.own_logits[u];
    }
    w_.factor[u] = math::softmax_scale(count, all);
    total += math::nll(count, all, own);
  }
  return total;
}

}  // namespace vaecf::cpu
