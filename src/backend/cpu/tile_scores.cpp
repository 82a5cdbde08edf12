#include "tile_scores.hpp"

#include <algorithm>
#include <limits>

#include "parallel.hpp"
#include "vector_kernels.hpp"

namespace vaecf::cpu {
namespace {

/// A score that is wanted before all others.
struct Wanted {
  std::int32_t item;
  std::int32_t user;  // within the tile
  std::int64_t entry;
};

}  // namespace

TileScores::TileScores(const TileKernels& kernels, TileWorkspace& workspace, int threads,
                       const CpuActivations& hidden, const CpuBatch& batch, const CpuParameters& parameters,
                       backend::Layer layer, Range users)
    : TileSlice(kernels, workspace, threads, hidden, batch, parameters, layer, users) {
  for (PerThread& t : w_.threads) {
    t.weights.reserve(panel_blocks * k_tiles_ * tile_numbers);
    t.logits.reserve(tile_side * panel_items);
  }
  load_hidden();
}

// Users are the rows here: left operands, as they are.
void TileScores::load_hidden() {
  on_ranges(threads_, user_tiles_, 1, [&](int, Range part) {
    for (std::int64_t u = part.begin; u < part.end; ++u) {
      for (std::int64_t k = 0; k < k_tiles_; ++k)
        copy_hidden(u, k, w_.hidden.data() + (u * k_tiles_ + k) * tile_numbers);
    }
  });
}

// A right operand of `rows` items, row_of(r) their weights: (K, items), paired.
template <class RowOf>
void TileScores::pack_block(PerThread& mine, std::int64_t rows, const RowOf& row_of,
                            std::uint16_t* to) const {
  std::uint16_t* tile = mine.tile.data();
  for (std::int64_t k = 0; k < k_tiles_; ++k) {
    copy_weights(rows, k, row_of, tile);
    kernels_.transpose(tile, tile + tile_numbers);
    kernels_.pair(tile + tile_numbers, to + k * tile_numbers);
  }
}

void TileScores::pack_items(PerThread& mine, std::int64_t first, std::int64_t count,
                            std::uint16_t* to) const {
  const std::uint16_t* from = weights_ + first * k_;
  pack_block(
      mine, std::min(tile_side, count), [&](std::int64_t r) { return from + r * k_; }, to);
}

void TileScores::pack_panel(PerThread& mine, std::int64_t first, std::int64_t count) const {
  for (std::int64_t b = 0; b < tiles_for(count); ++b) {
    pack_items(mine, first + b * tile_side, count - b * tile_side,
               mine.weights.data() + b * k_tiles_ * tile_numbers);
  }
}

void TileScores::write_rows(float* rows, std::int64_t stride) const {
  on_ranges(threads_, tiles_for(items_), 1, [&](int thread, Range blocks) {
    const TileScope scope(kernels_);
    PerThread& mine = w_.threads[thread];
    for (std::int64_t b = blocks.begin; b < blocks.end; ++b) {
      const std::int64_t first = b * tile_side;
      pack_items(mine, first, items_ - first, mine.weights.data());
      for (std::int64_t tile = 0; tile < user_tiles_; ++tile) {
        kernels_.multiply({.a = hidden_tiles(tile),
                           .b = mine.weights.data(),
                           .c = rows + tile * tile_side * stride + first,
                           .reduced = k_,
                           .stride = stride});
      }
    }
  });
}

// (32 users, panel_items), without bias; the next panel's weights come nearer meanwhile.
float* TileScores::multiply(PerThread& mine, std::int64_t user_tile, std::int64_t first,
                            std::int64_t count) const {
  const std::int64_t next_items = std::clamp<std::int64_t>(items_ - first - panel_items, 0, panel_items);
  const std::int64_t pieces = user_tiles_ * panel_blocks;
  const std::int64_t piece = next_items * k_ * 2 / pieces;
  const auto* next =
      reinterpret_cast<const char*>(weights_ + (next_items > 0 ? first + panel_items : first) * k_);
  for (std::int64_t b = 0; b < tiles_for(count); ++b) {
    kernels_.multiply({.a = hidden_tiles(user_tile),
                       .b = mine.weights.data() + b * k_tiles_ * tile_numbers,
                       .c = mine.logits.data() + b * tile_side,
                       .reduced = k_,
                       .stride = panel_items,
                       .ahead = next + (user_tile * panel_blocks + b) * piece,
                       .ahead_bytes = piece});
  }
  return mine.logits.data();
}

void TileScores::mask(float* row, std::int64_t user, std::int64_t first, std::int64_t count) const {
  const auto own = batch_.rows().row(users_.begin + user);
  for (auto item = std::lower_bound(own.begin(), own.end(), first);
       item != own.end() && *item < first + count; ++item) {
    row[*item - first] = -std::numeric_limits<float>::infinity();
  }
}

void TileScores::for_each_panel(const Use& use) const {
  on_ranges(threads_, (items_ + panel_items - 1) / panel_items, 1, [&](int thread, Range panels) {
    const TileScope scope(kernels_);
    PerThread& mine = w_.threads[thread];
    for (std::int64_t p = panels.begin; p < panels.end; ++p) {
      const std::int64_t first = p * panel_items;
      const std::int64_t count = std::min(panel_items, items_ - first);
      pack_panel(mine, first, count);
      for (std::int64_t tile = 0; tile < user_tiles_; ++tile) {
        float* row = multiply(mine, tile, first, count);
        const Range users{tile * tile_side, std::min((tile + 1) * tile_side, users_.size())};
        for (std::int64_t u = users.begin; u < users.end; ++u, row += panel_items) {
          add_bias(row, bias_ + first, false, count);
          mask(row, u, first, count);
          use(thread, u, first, {row, static_cast<std::size_t>(count)});
        }
      }
    }
  });
}

std::vector<float> TileScores::of(CsrView wanted) const {
  std::vector<float> scores(static_cast<std::size_t>(wanted.entries()));
  on_ranges(threads_, user_tiles_, 1, [&](int thread, Range tiles) {
    const TileScope scope(kernels_);
    PerThread& mine = w_.threads[thread];
    std::vector<Wanted> list;
    for (std::int64_t tile = tiles.begin; tile < tiles.end; ++tile) {
      list.clear();
      for (std::int64_t u = 0; u < std::min(tile_side, users_.size() - tile * tile_side); ++u) {
        const std::int64_t row = tile * tile_side + u;
        std::int64_t entry = wanted.offsets[row] - wanted.offsets[0];
        for (const std::int32_t item : wanted.row(row)) {
          list.push_back({item, static_cast<std::int32_t>(u), entry++});
        }
      }
      std::ranges::sort(list, {}, &Wanted::item);
      for (auto next = list.begin(); next != list.end();) {
        std::int32_t items[tile_side];
        std::int64_t count = 0;
        const auto begin = next;
        for (; next != list.end(); ++next) {
          if (count > 0 && items[count - 1] == next->item) continue;
          if (count == tile_side) break;
          items[count++] = next->item;
        }
        pack_block(
            mine, count, [&](std::int64_t r) { return weights_ + items[r] * k_; }, mine.weights.data());
        kernels_.multiply(
            {.a = hidden_tiles(tile), .b = mine.weights.data(), .c = mine.logits.data(), .reduced = k_});
        std::int64_t column = 0;
        for (auto w = begin; w != next; ++w) {
          while (items[column] != w->item) ++column;
          scores[static_cast<std::size_t>(w->entry)] =
              mine.logits.data()[w->user * tile_side + column] + bias_[w->item];
        }
      }
    }
  });
  return scores;
}

}  // namespace vaecf::cpu
