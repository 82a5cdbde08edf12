#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "cpu_backend.hpp"
#include "parallel.hpp"
#include "tile_scores.hpp"
#include "vector_kernels.hpp"
#include "workspace.hpp"

namespace vaecf::cpu {

/// Scores of a few users at a time, user-major, handed out row by row with the user's own items masked.
class Scorer {
 public:
  // Users whose scores exist at a time: 256 rows of ML-20M's items are 20 MB.
  static constexpr std::int64_t scored_users = 256;

  Scorer(CpuBackend& backend, const CpuActivations& hidden, const CpuBatch& batch,
         const CpuParameters& parameters, backend::Layer layer)
      : b_(backend),
        w_(*backend.workspace_),
        hidden_(hidden),
        batch_(batch),
        parameters_(parameters),
        layer_(layer),
        k_(hidden.columns()),
        items_(parameters.layout().tensors[layer.weight].spec.columns),
        padded_((items_ + tile_items - 1) / tile_items * tile_items),
        bias_(parameters.weights(layer.bias)) {
    weights_ = b_.bf16() ? static_cast<const void*>(parameters.shadow().data())
                         : static_cast<const void*>(parameters.weights(layer.weight));
  }

  std::int64_t items() const { return items_; }

  /// use(user, scores (I)) for every user of the batch, users of a slice in parallel.
  template <class Use>
  void for_each_row(Use&& use) {
    for (std::int64_t first = 0; first < hidden_.rows(); first += scored_users) {
      const std::int64_t count = std::min(scored_users, hidden_.rows() - first);
      multiply(first, count);
      on_ranges(b_.threads_, count, 1, [&](int, Range part) {
        for (std::int64_t u = part.begin; u < part.end; ++u) {
          float* row = w_.scores.data() + u * padded_;
          add_bias(row, bias_, false, items_);
          for (const std::int32_t item : batch_.rows().row(first + u)) {
            row[item] = -std::numeric_limits<float>::infinity();
          }
          use(first + u, row);
        }
      });
    }
  }

 private:
  void multiply(std::int64_t first, std::int64_t count) {
    w_.scores.reserve(scored_users * padded_);
    if (b_.tiles_) {
      TileScores(*b_.tiles_, w_.tiles, b_.threads_, hidden_, batch_, parameters_, layer_,
                 {first, first + count})
          .write_rows(w_.scores.data(), padded_);
      return;
    }
    const bool bf16 = b_.bf16();
    const void* users = hidden_.row(first);
    if (bf16) {
      w_.hidden16.reserve(scored_users * k_);
      to_bf16(hidden_.row(first), w_.hidden16.data(), count * k_);
      users = w_.hidden16.data();
    }
    const ProductSpec spec{.m = count,
                           .n = tile_items,
                           .k = k_,
                           .lda = k_,
                           .ldb = k_,
                           .ldc = padded_,
                           .b_transposed = true,
                           .bf16 = bf16};
    on_ranges(b_.threads_, padded_ / tile_items, 1, [&](int thread, Range tiles) {
      for (std::int64_t t = tiles.begin; t < tiles.end; ++t) {
        const std::int64_t offset = t * tile_items * k_ * (bf16 ? 2 : 4);
        b_.engines_[thread]->run(spec, users, static_cast<const char*>(weights_) + offset,
                                 w_.scores.data() + t * tile_items);
      }
    });
  }

  CpuBackend& b_;
  Workspace& w_;
  const CpuActivations& hidden_;
  const CpuBatch& batch_;
  const CpuParameters& parameters_;
  backend::Layer layer_;
  std::int64_t k_;
  std::int64_t items_;
  std::int64_t padded_;
  const float* bias_;
  const void* weights_;
};

}  // namespace vaecf::cpu
