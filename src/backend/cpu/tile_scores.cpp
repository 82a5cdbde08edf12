#include <algorithm>

#include "parallel.hpp"
#include "scores.hpp"
#include "tile_slice.hpp"
#include "vector_kernels.hpp"

namespace vaecf::cpu {
namespace {

constexpr std::int64_t panel_blocks = 8;
constexpr std::int64_t panel_items = panel_blocks * tile_side;

/// A score's bits do not depend on what else is in its tile, so those that the others are to be compared with
/// can be had first.
class TileScores : private TileSlice, public Scores {
 public:
  TileScores(const TileKernels& kernels, Workspace& workspace, const OutputSlice& slice)
      : TileSlice(kernels, workspace, slice) {
    for (PerThread& t : w_.threads) {
      t.weights.reserve(panel_blocks * k_tiles_ * tile_numbers);
      t.logits.reserve(tile_side * panel_items);
    }
    // Users are the rows here: left operands, as they are.
    on_each(threads_, user_tiles_, [&](int, std::int64_t u) {
      for (std::int64_t k = 0; k < k_tiles_; ++k) copy_hidden(u, k, hidden_tiles(u) + k * tile_numbers);
    });
  }

  int parts() const override { return threads_; }

  void for_each_panel(const Use& use) const override {
    on_ranges(threads_, (items_ + panel_items - 1) / panel_items, 1, [&](int thread, Range panels) {
      const TileScope scope(kernels_);
      PerThread& mine = w_.threads[thread];
      for (std::int64_t p = panels.begin; p < panels.end; ++p) {
        const std::int64_t first = p * panel_items;
        const std::int64_t count = std::min(panel_items, items_ - first);
        for (std::int64_t b = 0; b < count; b += tile_side) {
          const std::uint16_t* from = weights16_ + (first + b) * k_;
          pack_block(
              mine, std::min(tile_side, count - b), [&](std::int64_t r) { return from + r * k_; },
              mine.weights.data() + b * k_tiles_ * tile_side);
        }
        for (std::int64_t tile = 0; tile < user_tiles_; ++tile) {
          multiply(mine, tile, first, count);
          float* row = mine.logits.data();
          const std::int64_t end = std::min((tile + 1) * tile_side, users_.size());
          for (std::int64_t u = tile * tile_side; u < end; ++u, row += panel_items) {
            add_bias(row, bias_ + first, false, count);
            const std::span<float> panel(row, static_cast<std::size_t>(count));
            mask(u, first, panel);
            use(thread, u, first, panel);
          }
        }
      }
    });
  }

  std::vector<float> of(CsrView wanted) const override {
    std::vector<float> scores(static_cast<std::size_t>(wanted.entries()));
    for_each(user_tiles_, [&](PerThread& mine, std::int64_t tile) {
      const Range users{tile * tile_side, std::min((tile + 1) * tile_side, users_.size())};
      const CsrView rows = wanted.slice(users);
      std::vector<std::int32_t> items(rows.columns.begin(), rows.columns.end());
      std::ranges::sort(items);
      items.erase(std::unique(items.begin(), items.end()), items.end());
      const std::int64_t stride = tiles_for(std::ssize(items)) * tile_side;
      mine.logits.reserve(tile_side * stride);  // (32 users, those items)
      for (std::int64_t b = 0; b < std::ssize(items); b += tile_side) {
        pack_block(
            mine, std::min(tile_side, std::ssize(items) - b),
            [&](std::int64_t r) { return weights16_ + items[b + r] * k_; }, mine.weights.data());
        kernels_.multiply({.a = hidden_tiles(tile),
                           .b = mine.weights.data(),
                           .c = mine.logits.data() + b,
                           .reduced = k_,
                           .stride = stride});
      }
      float* to = scores.data() + (wanted.offsets[users.begin] - wanted.offsets[0]);
      for (std::int64_t u = 0; u < rows.rows(); ++u) {
        for (const std::int32_t item : rows.row(u)) {
          const auto column = std::ranges::lower_bound(items, item) - items.begin();
          *to++ = mine.logits[u * stride + column] + bias_[item];
        }
      }
    });
    return scores;
  }

 private:
  std::uint16_t* hidden_tiles(std::int64_t user_tile) const {
    return w_.hidden16.data() + user_tile * k_tiles_ * tile_numbers;
  }

  // A right operand of `rows` items, row_of(r) their weights: (K, items), paired.
  template <class RowOf>
  void pack_block(PerThread& mine, std::int64_t rows, const RowOf& row_of, std::uint16_t* to) const {
    std::uint16_t* tile = mine.bf16.data();
    for (std::int64_t k = 0; k < k_tiles_; ++k) {
      copy_weights(rows, k, row_of, tile);
      kernels_.transpose(tile, tile + tile_numbers);
      kernels_.pair(tile + tile_numbers, to + k * tile_numbers);
    }
  }

  // Makes a panel for 32 users, without bias; the next panel's weights come nearer meanwhile.
  void multiply(PerThread& mine, std::int64_t user_tile, std::int64_t first, std::int64_t count) const {
    const std::int64_t next_items = std::clamp<std::int64_t>(items_ - first - panel_items, 0, panel_items);
    const std::int64_t piece = next_items * k_ * 2 / (user_tiles_ * panel_blocks);
    const auto* next =
        reinterpret_cast<const char*>(weights16_ + (next_items > 0 ? first + panel_items : first) * k_);
    for (std::int64_t b = 0; b < tiles_for(count); ++b) {
      kernels_.multiply({.a = hidden_tiles(user_tile),
                         .b = mine.weights.data() + b * k_tiles_ * tile_numbers,
                         .c = mine.logits.data() + b * tile_side,
                         .reduced = k_,
                         .stride = panel_items,
                         .ahead = next + (user_tile * panel_blocks + b) * piece,
                         .ahead_bytes = piece});
    }
  }
};

}  // namespace

std::unique_ptr<Scores> make_tile_scores(const TileKernels& kernels, Workspace& workspace,
                                         const OutputSlice& slice) {
  return std::make_unique<TileScores>(kernels, workspace, slice);
}

}  // namespace vaecf::cpu
