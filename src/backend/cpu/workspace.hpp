#pragma once

#include <vector>

#include "product.hpp"
#include "storage.hpp"
#include "tile_slice.hpp"

namespace vaecf::cpu {

/// Scratch memory of products, the output layer's above all, kept between steps.
class Workspace {
 public:
  struct PerThread {
    AlignedArray<float> tile;          // (tile_items, width): logits, then gradients
    AlignedArray<std::uint16_t> bf16;  // the same as operand
    AlignedArray<float> row;           // (width)
    AlignedArray<float> d_hidden;      // (width, K): this thread's share
    AlignedArray<float> d_weights;     // (tile_items, K): where the update is fused
    AlignedArray<double> own_logits;   // (width): sum of the logits of the user's items
  };

  std::vector<PerThread> threads;
  AlignedArray<float> e32;  // (padded items, width): exp(logit - maximum of its tile)
  AlignedArray<std::uint16_t> e16;
  AlignedArray<float> hidden;  // (width, K), zero rows for absent users
  AlignedArray<std::uint16_t> hidden16;
  AlignedArray<float> maximum;                                 // (tiles, width)
  AlignedArray<float> sum;                                     // (tiles, width)
  AlignedArray<float> factor;                                  // (tiles, width)
  AlignedArray<float> scores;                                  // (users, padded items)
  AlignedArray<std::uint16_t> input16, weights16, gradient16;  // of the layers between, in bf16 runs
  TileWorkspace tiles;
  std::unique_ptr<PackedOperand> forward_operand;
  std::unique_ptr<PackedOperand> gradient_operand;
};

}  // namespace vaecf::cpu
