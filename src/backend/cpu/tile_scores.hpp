#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tile_slice.hpp"

namespace vaecf::cpu {

/// Scores of a slice of users by the output layer's own kernel: in panels that do not leave the nearer
/// caches, 32 users by 256 items, 32 KiB, or row by row. A score's bits do not depend on what else is in its
/// tile, so those that the others are to be compared with can be had first.
class TileScores : private TileSlice {
 public:
  static constexpr std::int64_t panel_blocks = 8;
  static constexpr std::int64_t panel_items = panel_blocks * tile_side;
  /// Panels are for few threads, as many as share a chip's nearer caches. Each sees all users, but items of
  /// its own: with many the lists and counters of all of them would cost more than rows that pass the L3.
  static constexpr int most_threads = 8;

  TileScores(const TileKernels& kernels, TileWorkspace& workspace, int threads, const CpuActivations& hidden,
             const CpuBatch& batch, const CpuParameters& parameters, backend::Layer layer, Range users);

  /// The scores of some items of each user, none masked: rows of `wanted` as in the slice, its columns
  /// ascending or not. One score per entry.
  std::vector<float> of(CsrView wanted) const;

  /// What to do with the scores of items first_item .. of one user, counted from the slice's first.
  using Use = std::function<void(int thread, std::int64_t user, std::int64_t first_item,
                                 std::span<const float> scores)>;
  /// For each user and panel, with the user's own items at minus infinity. Panels of a thread ascend; threads
  /// have different items.
  void for_each_panel(const Use& use) const;
  /// All scores without bias, nothing masked: rows (users padded to whole tiles, stride), the items too.
  void write_rows(float* rows, std::int64_t stride) const;

 private:
  void load_hidden();
  template <class RowOf>
  void pack_block(PerThread& mine, std::int64_t rows, const RowOf& row_of, std::uint16_t* to) const;
  void pack_items(PerThread& mine, std::int64_t first, std::int64_t count, std::uint16_t* to) const;
  void pack_panel(PerThread& mine, std::int64_t first, std::int64_t count) const;
  float* multiply(PerThread& mine, std::int64_t user_tile, std::int64_t first, std::int64_t count) const;
  void mask(float* row, std::int64_t user, std::int64_t first, std::int64_t count) const;

  const std::uint16_t* hidden_tiles(std::int64_t user_tile) const {
    return w_.hidden.data() + user_tile * k_tiles_ * tile_numbers;
  }
};

}  // namespace vaecf::cpu
