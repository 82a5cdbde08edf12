#include "scores.hpp"

#include <vaecf/backend/cpu/device.hpp>

#include <algorithm>

#include "parallel.hpp"
#include "vector_kernels.hpp"
#include "workspace.hpp"

namespace vaecf::cpu {
namespace {

/// Scores in memory, a row of `stride` numbers per user, with bias: a panel is a row.
class RowScores : public OutputSlice, public Scores {
 public:
  RowScores(const OutputSlice& slice, float* rows, std::int64_t stride)
      : OutputSlice(slice), rows_(rows), stride_(stride) {}

  int parts() const override { return 1; }

  void for_each_panel(const Use& use) const override {
    on_each(threads_, users_.size(), [&](int, std::int64_t u) {
      const std::span<float> row(rows_ + u * stride_, static_cast<std::size_t>(items_));
      mask(u, 0, row);
      use(0, u, 0, row);
    });
  }

  std::vector<float> of(CsrView wanted) const override {
    std::vector<float> scores;
    for (std::int64_t u = 0; u < wanted.rows(); ++u) {
      for (const std::int32_t item : wanted.row(u)) scores.push_back(rows_[u * stride_ + item]);
    }
    return scores;
  }

 private:
  float* rows_;
  std::int64_t stride_;
};

}  // namespace

void Device::for_scores(const Activations& hidden, const Batch& batch, const Parameters& parameters,
                        backend::Layer layer, const std::function<void(const Scores&, Range)>& use) {
  const bool in_panels = tiles_ && threads_ <= most_tile_threads;
  // Users whose scores exist at a time: 256 rows of ML-20M's items are 20 MB.
  const std::int64_t most = in_panels ? slice_users : 256;
  const std::int64_t k = hidden.columns();
  const std::int64_t stride = parameters.layout().tensors[layer.bias].range.size();
  for (std::int64_t first = 0; first < hidden.rows(); first += most) {
    const Range users{first, std::min(first + most, hidden.rows())};
    const OutputSlice slice(threads_, hidden, batch, parameters, layer, users);
    if (in_panels) {
      use(*make_tile_scores(*tiles_, *workspace_, slice), users);
      continue;
    }
    workspace_->scores.reserve(most * stride);
    float* rows = workspace_->scores.data();
    if (tiles_) {
      make_tile_scores(*tiles_, *workspace_, slice)
          ->for_each_panel([&](int, std::int64_t u, std::int64_t item, std::span<const float> panel) {
            std::ranges::copy(panel, rows + u * stride + item);
          });
    } else {
      const void* a = operand(hidden.row(first), users.size() * k, workspace_->hidden16);
      const void* b = bf16() ? static_cast<const void*>(parameters.shadow().data())
                             : static_cast<const void*>(parameters.weights(layer.weight));
      const float* bias = parameters.weights(layer.bias);
      const ProductSpec spec{.m = users.size(),
                             .n = tile_items,
                             .k = k,
                             .lda = k,
                             .ldb = k,
                             .ldc = stride,
                             .b_transposed = true,
                             .bf16 = bf16()};
      on_each(threads_, stride / tile_items, [&](int thread, std::int64_t tile) {
        const std::int64_t item = tile * tile_items;
        engines_[thread]->run(spec, a, element(b, item * k), rows + item);
        for (std::int64_t u = 0; u < users.size(); ++u) {
          add_bias(rows + u * stride + item, bias + item, false, tile_items);
        }
      });
    }
    use(RowScores(slice, rows, stride), users);
  }
}

}  // namespace vaecf::cpu
