#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "output_slice.hpp"
#include "parallel.hpp"
#include "tile_kernels.hpp"
#include "vector_kernels.hpp"
#include "workspace.hpp"

namespace vaecf::cpu {

/// A slice before the output layer's own kernel.
class TileSlice : protected OutputSlice {
 protected:
  using PerThread = Workspace::PerThread;

  TileSlice(const TileKernels& kernels, Workspace& workspace, const OutputSlice& slice)
      : OutputSlice(slice),
        kernels_(kernels),
        w_(workspace),
        k_tiles_(tiles_for(k_)),
        user_tiles_(tiles_for(users_.size())) {
    w_.hidden16.reserve(user_tiles_ * k_tiles_ * tile_numbers);
    for (PerThread& t : w_.threads) t.bf16.reserve(2 * tile_numbers);
  }

  /// f(this thread's memory, i) for each i of [0, n), with the kernels entered.
  template <class F>
  void for_each(std::int64_t n, F&& f) const {
    on_ranges(threads_, n, 1, [&](int thread, Range part) {
      const TileScope scope(kernels_);
      for (std::int64_t i = part.begin; i < part.end; ++i) f(w_.threads[thread], i);
    });
  }

  /// A tile of hidden units in bf16: row-major (users, K), zeros behind both.
  void copy_hidden(std::int64_t user_tile, std::int64_t k_tile, std::uint16_t* tile) const {
    const std::int64_t first = user_tile * tile_side;
    const std::int64_t columns = std::min(tile_side, k_ - k_tile * tile_side);
    std::fill_n(tile, tile_numbers, std::uint16_t{0});
    for (std::int64_t r = 0; r < std::min(tile_side, users_.size() - first); ++r) {
      to_bf16(hidden(first + r) + k_tile * tile_side, tile + r * tile_side, columns);
    }
  }
  /// A tile of a block's weights: row-major (items, K), zeros behind K; rows of items are padded in storage.
  void pack_weights(std::int64_t block, std::int64_t k_tile, std::uint16_t* tile) const {
    const std::int64_t columns = std::min(tile_side, k_ - k_tile * tile_side);
    const std::uint16_t* from = weights16_ + block * tile_side * k_ + k_tile * tile_side;
    for (std::int64_t r = 0; r < tile_side; ++r, tile += tile_side, from += k_) {
      if (columns == tile_side) {
        std::memcpy(tile, from, 2 * tile_side);  // of a known size: a few instructions
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

}  // namespace vaecf::cpu
