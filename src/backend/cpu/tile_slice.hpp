#pragma once

#include <cstdint>
#include <vector>

#include "storage.hpp"
#include "tile_kernels.hpp"

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
