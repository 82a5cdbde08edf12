#include <vaecf/math/loss.hpp>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <type_traits>

#include "cpu_backend.hpp"
#include "gradient_sink.hpp"
#include "parallel.hpp"
#include "tile_softmax.hpp"
#include "vector_kernels.hpp"
#include "workspace.hpp"

namespace vaecf::cpu {

/// One slice of users through the output layer, in two passes over tiles of items.
///
/// Pass 1 makes a tile of transposed logits, (tile_items, width), and keeps E = exp(logit - m_t), where m_t
/// is the user's maximum within this tile: E is in [0, 1] whatever the logits are, so nothing can overflow,
/// and bf16 keeps it to 2^-9 of itself. The tile's sums and maxima then give each user's log-sum-exp.
/// Pass 2 turns E into the gradient, N_u softmax - x = E exp(m_t - lse) N_u - x, in cache, and uses it for
/// dW (written tile by tile, or put into the weights at once, when d_hidden has seen them) and for this
/// thread's share of d_hidden. One exp per logit, no (B, I) but E.
template <class Operand>
class SoftmaxLayer {
  static constexpr bool is_bf16 = std::is_same_v<Operand, std::uint16_t>;

 public:
  static constexpr std::int64_t items_per_block = tile_items;

  SoftmaxLayer(CpuBackend& backend, const CpuActivations& hidden, const CpuBatch& batch,
               const CpuParameters& parameters, backend::Layer layer, Range users)
      : b_(backend),
        w_(*backend.workspace_),
        hidden_(hidden),
        batch_(batch),
        users_(users),
        k_(hidden.columns()),
        items_(parameters.layout().tensors[layer.weight].spec.columns),
        tiles_((items_ + tile_items - 1) / tile_items),
        width_((users.size() + 3) / 4 * 4),
        bias_(parameters.weights(layer.bias)) {
    if (!batch.has_transpose) throw std::logic_error("the loss needs a batch cut with its transpose");
    if constexpr (is_bf16) {
      weights_ = parameters.shadow().data();
      w_.e16.reserve(tiles_ * tile_items * width_);
    } else {
      weights_ = parameters.weights(layer.weight);
      w_.e32.reserve(tiles_ * tile_items * width_);
    }
    w_.maximum.reserve(tiles_ * width_);
    w_.sum.reserve(tiles_ * width_);
    w_.factor.reserve(tiles_ * width_);
    for (auto& t : w_.threads) {
      t.tile.reserve(tile_items * width_);
      t.row.reserve(width_);
      t.own_logits.reserve(width_);
      t.d_hidden.reserve(width_ * k_);
      if constexpr (is_bf16) t.bf16.reserve(tile_items * width_);
    }
    forward_ = {.m = tile_items,
                .n = width_,
                .k = k_,
                .lda = k_,
                .ldb = k_,
                .ldc = width_,
                .b_transposed = true,
                .bf16 = is_bf16};
    gradient_ = {.m = tile_items, .n = k_, .k = width_, .lda = width_, .ldb = k_, .ldc = k_, .bf16 = is_bf16};
    hidden_gradient_ = {.m = width_,
                        .n = k_,
                        .k = tile_items,
                        .lda = width_,
                        .ldb = k_,
                        .ldc = k_,
                        .a_transposed = true,
                        .accumulate = true,
                        .bf16 = is_bf16};
  }

  /// Pass 1; returns the slice's negative log-likelihood.
  double forward(bool keep_exponentials) {
    load_hidden();
    b_.engines_[0]->pack(forward_, hidden_operand(), *w_.forward_operand);
    for (auto& t : w_.threads) std::fill_n(t.own_logits.data(), width_, 0.0);
    on_ranges(b_.threads_, tiles_, 1, [&](int thread, Range tiles) {
      for (std::int64_t t = tiles.begin; t < tiles.end; ++t) forward_tile(thread, t, keep_exponentials);
    });
    return finish_softmax();
  }

  /// Pass 2 over tiles [tiles.begin, tiles.end): gradients of weights and bias, and of hidden into the
  /// threads' shares.
  void backward(Range tiles, const GradientSink& sink) {
    if (tiles.begin == 0) {
      b_.engines_[0]->pack(gradient_, hidden_operand(), *w_.gradient_operand);
      for (auto& t : w_.threads) {
        std::fill_n(t.d_hidden.data(), width_ * k_, 0.0F);
        if (sink.stays_in_cache()) t.d_weights.reserve(tile_items * k_);
      }
    }
    gradient_.accumulate = !sink.first_slice;
    on_ranges(b_.threads_, tiles.size(), 1, [&](int thread, Range part) {
      for (std::int64_t t = tiles.begin + part.begin; t < tiles.begin + part.end; ++t) {
        backward_tile(thread, t, sink);
      }
    });
  }

  void finish_hidden_gradient(CpuActivations& d_hidden) const {
    on_ranges(b_.threads_, users_.size(), 1, [&](int, Range part) {
      for (std::int64_t u = part.begin; u < part.end; ++u) {
        float* row = d_hidden.row(users_.begin + u);
        std::copy_n(w_.threads[0].d_hidden.data() + u * k_, k_, row);
        for (std::size_t t = 1; t < w_.threads.size(); ++t) {
          add(row, w_.threads[t].d_hidden.data() + u * k_, k_);
        }
      }
    });
  }

  std::int64_t blocks() const { return tiles_; }

 private:
  const void* hidden_operand() const {
    if constexpr (is_bf16)
      return w_.hidden16.data();
    else
      return w_.hidden.data();
  }

  Operand* exponentials(std::int64_t tile) const {
    if constexpr (is_bf16)
      return w_.e16.data() + tile * tile_items * width_;
    else
      return w_.e32.data() + tile * tile_items * width_;
  }

  // Rows of absent users (width is a multiple of 4) are zero: their logits are the bias, their factor 0.
  void load_hidden() {
    if constexpr (is_bf16)
      w_.hidden16.reserve(width_ * k_);
    else
      w_.hidden.reserve(width_ * k_);
    on_ranges(b_.threads_, width_, 1, [&](int, Range part) {
      for (std::int64_t u = part.begin; u < part.end; ++u) {
        if constexpr (is_bf16) {
          if (u < users_.size())
            to_bf16(hidden_.row(users_.begin + u), w_.hidden16.data() + u * k_, k_);
          else
            std::fill_n(w_.hidden16.data() + u * k_, k_, std::uint16_t{0});
        } else {
          if (u < users_.size())
            std::copy_n(hidden_.row(users_.begin + u), k_, w_.hidden.data() + u * k_);
          else
            std::fill_n(w_.hidden.data() + u * k_, k_, 0.0F);
        }
      }
    });
  }

  // Calls f(row within the tile, user within the slice) for each interaction of the tile's items.
  template <class F>
  void for_own_items(std::int64_t item, F&& f) const {
    for (std::int32_t e = batch_.item_begin[item]; e < batch_.item_begin[item + 1]; ++e) {
      const std::int64_t u = batch_.item_users[e] - users_.begin;
      if (u >= 0 && u < users_.size()) f(u);
    }
  }

  std::int64_t rows_of(std::int64_t tile) const { return std::min(tile_items, items_ - tile * tile_items); }

  void forward_tile(int thread, std::int64_t t, bool keep_exponentials) {
    auto& mine = w_.threads[thread];
    float* tile = mine.tile.data();
    b_.engines_[thread]->run_packed(forward_, weights_ + t * tile_items * k_, *w_.forward_operand, tile);
    const std::int64_t rows = rows_of(t);
    float* maximum = w_.maximum.data() + t * width_;
    float* sum = w_.sum.data() + t * width_;
    add_bias_and_max(tile, bias_ + t * tile_items, rows, width_, maximum);
    std::fill_n(sum, width_, 0.0F);
    for (std::int64_t r = 0; r < rows; ++r) {
      float* row = tile + r * width_;
      for_own_items(t * tile_items + r, [&](std::int64_t u) { mine.own_logits.data()[u] += row[u]; });
      if (keep_exponentials)
        exponentials_of_row(row, maximum, exponentials(t) + r * width_, sum, width_);
      else
        exponentials_of_row(row, maximum, row, sum, width_);
    }
  }

  // factor_tu = softmax_scale_u exp(m_tu - m_u).
  double finish_softmax() {
    std::vector<double> loss(static_cast<std::size_t>(users_.size()));
    on_ranges(b_.threads_, width_, 16, [&](int, Range part) {
      std::vector<float> factor(static_cast<std::size_t>(tiles_));
      for (std::int64_t u = part.begin; u < part.end; ++u) {
        float maximum = -INFINITY;
        for (std::int64_t t = 0; t < tiles_; ++t)
          maximum = std::max(maximum, w_.maximum.data()[t * width_ + u]);
        for (std::int64_t t = 0; t < tiles_; ++t) factor[t] = w_.maximum.data()[t * width_ + u] - maximum;
        vaecf::cpu::exponentials(factor.data(), tiles_);
        double sum = 0.0;
        for (std::int64_t t = 0; t < tiles_; ++t) {
          sum += static_cast<double>(w_.sum.data()[t * width_ + u]) * static_cast<double>(factor[t]);
        }
        const bool real = u < users_.size();
        const auto count = real ? batch_.rows().row_size(users_.begin + u) : 0;
        const math::SoftmaxPart<double> all{maximum, sum};
        const float scale = math::softmax_scale(count, all);
        for (std::int64_t t = 0; t < tiles_; ++t) w_.factor.data()[t * width_ + u] = factor[t] * scale;
        if (count == 0) continue;
        double own = 0.0;
        for (const auto& thread : w_.threads) own += thread.own_logits.data()[u];
        loss[u] = math::nll(count, all, own);
      }
    });
    double total = 0.0;
    for (const double value : loss) total += value;
    return total;
  }

  void backward_tile(int thread, std::int64_t t, const GradientSink& sink) {
    auto& mine = w_.threads[thread];
    const std::int64_t rows = rows_of(t);
    const std::int64_t first_weight = sink.weight.range.begin + t * tile_items * k_;
    const std::int64_t first_bias = sink.bias.range.begin + t * tile_items;
    float* d_weights = sink.stays_in_cache() ? mine.d_weights.data() : sink.gradients + first_weight;
    float* d_bias = sink.gradients + first_bias;
    const float* factor = w_.factor.data() + t * width_;
    for (std::int64_t r = 0; r < rows; ++r) {
      float* row = is_bf16 ? mine.row.data() : mine.tile.data() + r * width_;
      scale_row(exponentials(t) + r * width_, factor, row, width_);
      for_own_items(t * tile_items + r, [&](std::int64_t u) { row[u] -= 1.0F; });
      const float sum = sum_of_row(row, width_);
      d_bias[r] = sink.first_slice ? sum : d_bias[r] + sum;
      if constexpr (is_bf16) to_bf16(row, mine.bf16.data() + r * width_, width_);
    }
    const Operand* operand = nullptr;
    if constexpr (is_bf16) {
      std::fill_n(mine.bf16.data() + rows * width_, (tile_items - rows) * width_, std::uint16_t{0});
      operand = mine.bf16.data();
    } else {
      std::fill_n(mine.tile.data() + rows * width_, (tile_items - rows) * width_, 0.0F);
      operand = mine.tile.data();
    }
    b_.engines_[thread]->run_packed(gradient_, operand, *w_.gradient_operand, d_weights);
    b_.engines_[thread]->run(hidden_gradient_, operand, weights_ + t * tile_items * k_, mine.d_hidden.data());
    if (!sink.updates()) return;
    sink.update(sink.weight, first_weight, d_weights, rows * k_);
    sink.update(sink.bias, first_bias, d_bias, rows);
  }

  CpuBackend& b_;
  Workspace& w_;
  const CpuActivations& hidden_;
  const CpuBatch& batch_;
  Range users_;
  std::int64_t k_;
  std::int64_t items_;
  std::int64_t tiles_;
  std::int64_t width_;
  const float* bias_;
  const Operand* weights_ = nullptr;  // (padded items, K)
  ProductSpec forward_, gradient_, hidden_gradient_;
};

template <class F>
void CpuBackend::with_slice(const CpuActivations& hidden, const CpuBatch& batch,
                            const CpuParameters& parameters, backend::Layer layer, Range users, F&& use) {
  if (tiles_) {
    TileSoftmax slice(*tiles_, workspace_->tiles,
                      OutputSlice(threads_, hidden, batch, parameters, layer, users));
    use(slice);
  } else if (bf16()) {
    SoftmaxLayer<std::uint16_t> slice(*this, hidden, batch, parameters, layer, users);
    use(slice);
  } else {
    SoftmaxLayer<float> slice(*this, hidden, batch, parameters, layer, users);
    use(slice);
  }
}

void CpuBackend::softmax_layer_step(const backend::Activations& hidden, const backend::Batch& batch,
                                    const backend::Parameters& parameters, backend::Layer layer,
                                    backend::StepState& step, backend::Activations& d_hidden,
                                    backend::FloatBuffer& gradients, const backend::GradientReady& ready,
                                    const backend::FusedUpdate* fused) {
  if (fused != nullptr && cpu(step).numbers.rule.clip_norm > 0.0F) {
    throw std::logic_error("an update that is clipped waits for the whole gradient and cannot be fused");
  }
  cpu(step).users = hidden.rows();
  const CpuParameters& p = cpu(parameters);
  const auto& weight = p.layout().tensors[layer.weight];
  const auto& bias = p.layout().tensors[layer.bias];
  GradientSink sink{weight, bias, cpu(step), gradients.data(), fused};
  CpuActivations& d = cpu(d_hidden);
  d.set_rows(hidden.rows());
  if (hidden.rows() == 0) {
    for (const auto* tensor : {&weight, &bias}) {
      float* gradient = gradients.data() + tensor->range.begin;
      std::fill_n(gradient, tensor->range.size(), 0.0F);
      if (fused != nullptr)
        sink.update(*tensor, tensor->range.begin, gradient, tensor->range.size());
      else if (ready)
        ready(tensor->range, {});
    }
    return;
  }
  // Reported in stretches of whole blocks, several per thread: about the size of a bucket.
  const std::int64_t stretch = std::max<std::int64_t>(16, 4 * threads_) * tile_items;
  for_slices(hidden.rows(), slice_users, [&](Range users, bool first, bool last) {
    with_slice(cpu(hidden), cpu(batch), p, layer, users, [&](auto& slice) {
      cpu(step).nll += slice.forward(true);
      sink.first_slice = first;
      sink.last_slice = last;
      const bool reports = last && ready && fused == nullptr;
      const std::int64_t items = slice.items_per_block;
      const std::int64_t step_blocks = reports ? stretch / items : slice.blocks();
      for (std::int64_t b = 0; b < slice.blocks(); b += step_blocks) {
        const Range blocks{b, std::min(b + step_blocks, slice.blocks())};
        slice.backward(blocks, sink);
        if (!reports) continue;
        const std::int64_t block_size = items * hidden.columns();
        const bool end = blocks.end == slice.blocks();
        ready({weight.range.begin + blocks.begin * block_size,
               end ? weight.range.end : weight.range.begin + blocks.end * block_size},
              {});
      }
      if (reports) ready(bias.range, {});
      slice.finish_hidden_gradient(d);
    });
  });
}

void CpuBackend::softmax_layer_loss(const backend::Activations& hidden, const backend::Batch& batch,
                                    const backend::Parameters& parameters, backend::Layer layer,
                                    backend::StepState& step) {
  cpu(step).users = hidden.rows();
  if (hidden.rows() == 0) return;
  for_slices(hidden.rows(), slice_users, [&](Range users, bool, bool) {
    with_slice(cpu(hidden), cpu(batch), cpu(parameters), layer, users,
               [&](auto& slice) { cpu(step).nll += slice.forward(false); });
  });
}

}  // namespace vaecf::cpu
