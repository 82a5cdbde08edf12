#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "output_slice.hpp"
#include "tile_kernels.hpp"
#include "vector_kernels.hpp"

namespace vaecf::cpu {

/// Scratch memory of what follows, kept between steps. Tiles in the order in which products walk them.
struct TileWorkspace {
  struct PerThread {
    AlignedArray<std::uint16_t> weights;  // a block of items, (K tiles); then a chunk's, (K tiles, blocks)
    AlignedArray<std::uint16_t> e;        // of a chunk, transposed: (user tiles, blocks)
    AlignedArray<float> d_hidden;         // this thread's share: (K tiles, user tiles)
    AlignedArray<float> d_weights;        // of a block: (32, K)
    AlignedArray<float> logits;           // a tile
    AlignedArray<std::uint16_t> tile;     // two tiles to convert in
    std::vector<double> sum;              // (width): of the exponentials
    std::vector<double> own_logits;       // (width): sum of the logits of the user's items
    std::vector<float> largest;           // (width): of logit - reference
    std::vector<std::uint16_t> own;       // places in a tile of the users' own items, by user tile
    std::vector<std::int32_t> own_begin;
  };

  std::vector<PerThread> threads;
  AlignedArray<std::uint16_t> e;                // (item blocks, user tiles)
  AlignedArray<std::uint16_t> hidden;           // (user tiles, K tiles), paired along K
  AlignedArray<std::uint16_t> weighted_hidden;  // (tiles of K + 1, user tiles), paired along the users
  std::vector<float> reference;                 // (width)
  std::vector<float> factor;                    // (width): N_u / sum of exponentials
};

/// A slice before the output layer's own kernel.
class TileSlice : protected OutputSlice {
 protected:
  using PerThread = TileWorkspace::PerThread;

  TileSlice(const TileKernels& kernels, TileWorkspace& workspace, const OutputSlice& slice)
      : OutputSlice(slice),
        kernels_(kernels),
        w_(workspace),
        k_tiles_(tiles_for(k_)),
        user_tiles_(tiles_for(users_.size())) {
    w_.threads.resize(static_cast<std::size_t>(threads_));
    w_.hidden.reserve(user_tiles_ * k_tiles_ * tile_numbers);
    for (PerThread& t : w_.threads) t.tile.reserve(2 * tile_numbers);
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
  /// A tile of `rows` items' weights, of item r from row_of(r) on: row-major (items, K), zeros behind both.
  template <class RowOf>
  void copy_weights(std::int64_t rows, std::int64_t k_tile, const RowOf& row_of, std::uint16_t* tile) const {
    const std::int64_t columns = std::min(tile_side, k_ - k_tile * tile_side);
    for (std::int64_t r = 0; r < rows; ++r, tile += tile_side) {
      const std::uint16_t* from = row_of(r) + k_tile * tile_side;
      if (columns == tile_side) {
        std::memcpy(tile, from, 2 * tile_side);  // of a known size: a few instructions
      } else {
        std::copy_n(from, columns, tile);
        std::fill_n(tile + columns, tile_side - columns, std::uint16_t{0});
      }
    }
    std::fill_n(tile, (tile_side - rows) * tile_side, std::uint16_t{0});
  }

  const TileKernels& kernels_;
  TileWorkspace& w_;
  std::int64_t k_tiles_;
  std::int64_t user_tiles_;
};

}  // namespace vaecf::cpu
