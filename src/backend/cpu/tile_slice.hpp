#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "storage.hpp"
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

/// Some users of a batch before the output layer, for its own kernel.
class TileSlice {
 protected:
  using PerThread = TileWorkspace::PerThread;

  TileSlice(const TileKernels& kernels, TileWorkspace& workspace, int threads, const CpuActivations& hidden,
            const CpuBatch& batch, const CpuParameters& parameters, backend::Layer layer, Range users)
      : kernels_(kernels),
        w_(workspace),
        threads_(threads),
        hidden_(hidden),
        batch_(batch),
        users_(users),
        k_(hidden.columns()),
        k_tiles_(tiles_for(k_)),
        items_(parameters.layout().tensors[layer.weight].spec.columns),
        user_tiles_(tiles_for(users.size())),
        bias_(parameters.weights(layer.bias)),
        weights_(parameters.shadow().data()) {
    w_.threads.resize(static_cast<std::size_t>(threads));
    w_.hidden.reserve(user_tiles_ * k_tiles_ * tile_numbers);
    for (PerThread& t : w_.threads) t.tile.reserve(2 * tile_numbers);
  }

  /// A tile of hidden units in bf16: row-major (users, K), zeros behind both.
  void copy_hidden(std::int64_t user_tile, std::int64_t k_tile, std::uint16_t* tile) const {
    const std::int64_t first = user_tile * tile_side;
    const std::int64_t columns = std::min(tile_side, k_ - k_tile * tile_side);
    std::fill_n(tile, tile_numbers, std::uint16_t{0});
    for (std::int64_t r = 0; r < std::min(tile_side, users_.size() - first); ++r) {
      to_bf16(hidden_.row(users_.begin + first + r) + k_tile * tile_side, tile + r * tile_side, columns);
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
  int threads_;
  const CpuActivations& hidden_;
  const CpuBatch& batch_;
  Range users_;
  std::int64_t k_;
  std::int64_t k_tiles_;
  std::int64_t items_;
  std::int64_t user_tiles_;
  const float* bias_;
  const std::uint16_t* weights_;  // (padded items, K)
};

}  // namespace vaecf::cpu
