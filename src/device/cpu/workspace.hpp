#pragma once

#include <memory>
#include <vector>

#include "device/cpu/kernels/gemm.hpp"
#include "device/cpu/storage.hpp"

namespace vaecf::cpu {

/// Scratch memory of products, mainly of the output layer, kept between steps. The custom kernel stores its
/// operands as tiles, in the order in which its products read them.
struct Workspace {
  struct PerThread {
    AlignedArray<float> logits;        // (tile_items, width), then their gradients; or a tile
    AlignedArray<std::uint16_t> bf16;  // two tiles to convert
    AlignedArray<float>
        fp32_weights;               // (tile_items, K): product operands, if bf16 is emulated by rounded fp32
    AlignedArray<float> d_hidden;   // (width, K) or (K tiles, user tiles): this thread's partial sum
    AlignedArray<float> d_weights;  // gradient of a tile of items: (tile_items or 32, K)
    AlignedArray<float> error;      // (width): output - input of one item
    AlignedArray<double> positive_logits;  // (width): sum of the logits of each user's items
    // Used by the custom kernel of the output layer:
    AlignedArray<std::uint16_t> weights;   // a block of items, (K tiles); then a chunk's, (K tiles, blocks)
    AlignedArray<std::uint16_t> e;         // exponentials of a chunk, transposed: (user tiles, blocks)
    std::vector<double> sum;               // (width): sum of exponentials
    std::vector<float> largest;            // (width): maximum of logit - reference
    std::vector<std::uint16_t> positives;  // positions of the users' own items in a tile, by user tile
    std::vector<std::int32_t> positives_begin;
  };

  std::vector<PerThread> threads;
  AlignedArray<float> e32;                      // (padded items, width): exp(logit - maximum of its tile)
  AlignedArray<std::uint16_t> e16;              // (item blocks, user tiles)
  AlignedArray<float> hidden;                   // (width, K), zero rows for absent users
  AlignedArray<std::uint16_t> hidden16;         // (user tiles, K tiles); or (users, K)
  AlignedArray<float> maximum;                  // (tiles, width)
  AlignedArray<float> sum;                      // (tiles, width)
  AlignedArray<float> factor;                   // (tiles, width), or (width): N_u / sum of exponentials
  AlignedArray<float> scores;                   // (users, padded items)
  AlignedArray<float> products;                 // of an item table: (parts, width, width) or (users, width)
  AlignedArray<std::uint16_t> weighted_hidden;  // (tiles of K + 1, user tiles), paired along the users
  std::vector<float> reference;                 // (width)
  AlignedArray<std::uint16_t> input16, weights16, gradient16;  // of the dense layers, in bf16
  PackedOperand forward_operand, gradient_operand;
  // With several item slices, values of all users of a batch:
  AlignedArray<float> gathered, sums;
};

}  // namespace vaecf::cpu
