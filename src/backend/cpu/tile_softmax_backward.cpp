#include <vaecf/base/narrow.hpp>

#include <algorithm>
#include <vector>

#include "parallel.hpp"
#include "tile_ahead.hpp"
#include "tile_softmax.hpp"

namespace vaecf::cpu {
namespace {

/// Items whose E and weights stay in the nearer caches while d_hidden passes by, in blocks.
constexpr std::int64_t chunk_blocks = 8;

}  // namespace

// s H, and s itself as column K.
void TileSoftmax::weigh_hidden() {
  const std::int64_t tiles = tiles_for(k_ + 1);
  w_.weighted_hidden.reserve(tiles * user_tiles_ * tile_numbers);
  on_ranges(threads_, user_tiles_, 1, [&](int thread, Range part) {
    const TileScope scope(kernels_);
    std::uint16_t* tile = w_.threads[thread].tile.data();
    std::vector<float> row(static_cast<std::size_t>(tiles * tile_side));
    for (std::int64_t u = part.begin; u < part.end; ++u) {
      for (std::int64_t k = 0; k < tiles; ++k) {
        std::fill_n(tile, tile_numbers, std::uint16_t{0});
        for (std::int64_t r = 0; r < std::min(tile_side, users_.size() - u * tile_side); ++r) {
          const float s = w_.factor[u * tile_side + r];
          const float* from = hidden_.row(users_.begin + u * tile_side + r);
          for (std::int64_t c = 0; c < tile_side; ++c) {
            const std::int64_t column = k * tile_side + c;
            row[c] = column < k_ ? s * from[column] : column == k_ ? s : 0.0F;
          }
          to_bf16(row.data(), tile + r * tile_side, tile_side);
        }
        kernels_.pair(tile, w_.weighted_hidden.data() + (k * user_tiles_ + u) * tile_numbers);
      }
    }
  });
}

void TileSoftmax::backward(Range blocks, const GradientSink& sink) {
  if (blocks.begin == 0) {
    weigh_hidden();
    for (PerThread& t : w_.threads) {
      t.weights.reserve(chunk_blocks * k_tiles_ * tile_numbers);
      t.e.reserve(chunk_blocks * user_tiles_ * tile_numbers);
      t.d_hidden.reserve(user_tiles_ * k_tiles_ * tile_numbers);
      t.d_weights.reserve(tile_side * k_);
      std::fill_n(t.d_hidden.data(), user_tiles_ * k_tiles_ * tile_numbers, 0.0F);
    }
  }
  on_ranges(threads_, blocks.size(), 1, [&](int thread, Range part) {
    const TileScope scope(kernels_);
    PerThread& mine = w_.threads[thread];
    const std::int64_t chunks = (part.size() + chunk_blocks - 1) / chunk_blocks;
    for (std::int64_t c = 0; c < chunks; ++c) {
      const Range chunk{blocks.begin + part.begin + part.size() * c / chunks,
                        blocks.begin + part.begin + part.size() * (c + 1) / chunks};
      add_hidden_gradient(mine, chunk);
      for (std::int64_t b = chunk.begin; b < chunk.end; ++b) weight_gradient(mine, b, sink);
    }
  });
}

// E - x / s.
void TileSoftmax::subtract_own_items(std::int64_t block) const {
  std::uint16_t* e = exponentials(block);
  for (std::int64_t r = 0; r < rows_of(block); ++r) {
    const std::int64_t item = block * tile_side + r;
    for (std::int32_t i = batch_.item_begin[item]; i < batch_.item_begin[item + 1]; ++i) {
      const std::int64_t u = batch_.item_users[i] - users_.begin;
      if (u < 0 || u >= users_.size()) continue;
      std::uint16_t& value = e[u / tile_side * tile_numbers + r * tile_side + u % tile_side];
      value = vaecf::to_bf16(vaecf::from_bf16(value) - 1.0F / w_.factor[u]);
    }
  }
}

void TileSoftmax::add_hidden_gradient(PerThread& mine, Range chunk) const {
  const std::int64_t n = chunk.size();
  for (std::int64_t j = 0; j < n; ++j) {
    const std::int64_t block = chunk.begin + j;
    subtract_own_items(block);
    for (std::int64_t u = 0; u < user_tiles_; ++u) {
      kernels_.transpose(exponentials(block) + u * tile_numbers, mine.e.data() + (u * n + j) * tile_numbers);
    }
    for (std::int64_t k = 0; k < k_tiles_; ++k) {
      pack_weights(block, k, mine.tile.data());
      kernels_.pair(mine.tile.data(), mine.weights.data() + (k * n + j) * tile_numbers);
    }
  }
  // Larger than the nearer caches: each tile is asked for while the one before it is in work.
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
                         .ahead = place(u + 1, k),
                         .ahead_bytes = u + 1 < user_tiles_ ? tile_bytes : 0});
    }
  }
}

void TileSoftmax::weight_gradient(PerThread& mine, std::int64_t block, const GradientSink& sink) const {
  const std::int64_t rows = rows_of(block);
  const std::int64_t first = sink.weight.range.begin + block * tile_side * k_;
  const std::int64_t tiles = tiles_for(k_ + 1);
  float* d_weights = mine.d_weights.data();
  MemoryAhead ahead;
  sink.for_needed_memory(first, rows * k_,
                         [&](const void* from, std::int64_t bytes) { ahead.add(from, bytes); });
  if (block + chunk_blocks < blocks_) {
    ahead.add(weights16_ + (block + chunk_blocks) * tile_side * k_, tile_side * k_ * 2);
    ahead.add(exponentials(block + chunk_blocks), user_tiles_ * tile_numbers * 2);
  }
  for (std::int64_t k = 0; k < tiles; ++k) {
    const MemoryAhead::Piece piece = ahead.next(tiles - k);
    const std::int64_t columns = std::clamp<std::int64_t>(k_ - k * tile_side, 0, tile_side);
    float* edge = mine.logits.data();
    kernels_.multiply({.a = exponentials(block),
                       .b = w_.weighted_hidden.data() + k * user_tiles_ * tile_numbers,
                       .c = columns == tile_side ? d_weights + k * tile_side : edge,
                       .reduced = users_.size(),
                       .stride = columns == tile_side ? k_ : tile_side,
                       .ahead = piece.from,
                       .ahead_bytes = piece.bytes});
    if (columns == tile_side) continue;
    for (std::int64_t r = 0; r < tile_side; ++r) {
      std::copy_n(edge + r * tile_side, columns, d_weights + r * k_ + k * tile_side);
    }
  }
  alignas(64) float d_bias[tile_side];
  for (std::int64_t r = 0; r < tile_side; ++r) d_bias[r] = mine.logits.data()[r * tile_side + k_ % tile_side];
  sink.take(sink.weight, first, d_weights, rows * k_);
  sink.take(sink.bias, sink.bias.range.begin + block * tile_side, d_bias, rows);
}

void TileSoftmax::finish_hidden_gradient(CpuActivations& d_hidden) const {
  on_ranges(threads_, users_.size(), 1, [&](int, Range part) {
    for (std::int64_t u = part.begin; u < part.end; ++u) {
      float* row = d_hidden.row(users_.begin + u);
      const std::int64_t place = u / tile_side * tile_numbers + u % tile_side * tile_side;
      for (std::int64_t k = 0; k < k_; ++k) {
        const std::int64_t i = place + k / tile_side * user_tiles_ * tile_numbers + k % tile_side;
        float sum = 0.0F;
        for (const PerThread& t : w_.threads) sum += t.d_hidden.data()[i];
        row[k] = w_.factor[u] * sum;
      }
    }
  });
}

}  // namespace vaecf::cpu
