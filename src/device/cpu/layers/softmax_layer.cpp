#include <vaecf/device/cpu/device.hpp>
#include <vaecf/math/loss.hpp>

#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>

#include "device/cpu/layers/softmax_slice.hpp"

namespace vaecf::cpu {
namespace {

/// Computes a slice of the output layer by fp32 products of `engines`, one per thread, in tiles of items. In
/// bf16, each product operand is rounded first.
///
/// Pass 1 computes a tile of transposed logits, (tile_items, width), and stores E = exp(logit - m_t), where
/// m_t is the user's maximum within this tile. E is in [0, 1] for all logits, so nothing can overflow, and
/// bf16 stores it with a relative error of 2^-9. The sums and maxima of all tiles give each user's
/// log-sum-exp.
///
/// Pass 2 turns E into the gradient N_u softmax - x = E exp(m_t - lse) N_u - x in cache. It uses the gradient
/// for dW and for this thread's part of d_hidden. dW is written tile by tile, or applied to the weights once
/// d_hidden has used them. This takes one exp per logit, and E is the only (B, I) array.
class SoftmaxLayer : private OutputSlice, public SoftmaxSlice {
  using PerThread = Workspace::PerThread;

 public:
  SoftmaxLayer(std::span<const std::unique_ptr<GemmEngine>> engines, Workspace& workspace,
               const OutputSlice& slice)
      : OutputSlice(slice),
        engines_(engines),
        w_(workspace),
        rounds_(weights16_ != nullptr),
        tiles_((items_ + tile_items - 1) / tile_items),
        width_((users_.size() + 3) / 4 * 4) {
    if (!batch_.has_transpose)
      throw std::logic_error("softmax_layer_step: the batch must have its transpose");
    w_.e32.reserve(tiles_ * tile_items * width_);
    w_.hidden.reserve(width_ * k_);
    for (auto* values : {&w_.maximum, &w_.sum, &w_.factor}) values->reserve(tiles_ * width_);
    for (PerThread& t : w_.threads) {
      t.logits.reserve(tile_items * width_);
      t.positive_logits.reserve(width_);
      t.d_hidden.reserve(width_ * k_);
      if (rounds_) t.fp32_weights.reserve(tile_items * k_);
    }
    forward_ = {
        .m = tile_items, .n = width_, .k = k_, .lda = k_, .ldb = k_, .ldc = width_, .b_transposed = true};
    gradient_ = {.m = tile_items, .n = k_, .k = width_, .lda = width_, .ldb = k_, .ldc = k_};
    hidden_gradient_ = {.m = width_,
                        .n = k_,
                        .k = tile_items,
                        .lda = width_,
                        .ldb = k_,
                        .ldc = k_,
                        .a_transposed = true,
                        .accumulate = true};
  }

  double forward() override {
    // Rows of absent users (width is a multiple of 4) are zero: their logits are the bias, their factor 0.
    float* to = w_.hidden.data();
    parallel_for(threads_, users_.size(), [&](int, std::int64_t u) {
      std::copy_n(hidden(u), k_, to + u * k_);
      round(to + u * k_, k_);
    });
    std::fill_n(to + users_.size() * k_, (width_ - users_.size()) * k_, 0.0F);
    engines_[0]->pack(forward_, to, w_.forward_operand);
    for (PerThread& t : w_.threads) std::fill_n(t.positive_logits.data(), width_, 0.0);
    parallel_for(threads_, tiles_, [&](int thread, std::int64_t t) { forward_tile(thread, t); });
    return finish_softmax();
  }

  void backward(Range items, const GradientSink& sink) override {
    const Range tiles{items.begin / tile_items, (items.end + tile_items - 1) / tile_items};
    if (tiles.begin == 0) {
      if (sink.of_weights()) engines_[0]->pack(gradient_, w_.hidden.data(), w_.gradient_operand);
      for (PerThread& t : w_.threads) {
        if (sink.of_hidden()) std::fill_n(t.d_hidden.data(), width_ * k_, 0.0F);
        if (sink.stays_in_cache()) t.d_weights.reserve(tile_items * k_);
      }
    }
    gradient_.accumulate = !sink.first_slice;
    parallel_for(threads_, tiles.size(),
                 [&](int thread, std::int64_t t) { backward_tile(thread, tiles.begin + t, sink); });
  }

  void finish_hidden_gradient(Activations& d_hidden) const override {
    parallel_for(threads_, users_.size(), [&](int, std::int64_t u) {
      float* row = d_hidden.row(users_.begin + u);
      std::copy_n(w_.threads[0].d_hidden.data() + u * k_, k_, row);
      for (std::size_t t = 1; t < w_.threads.size(); ++t)
        add(row, w_.threads[t].d_hidden.data() + u * k_, k_);
    });
  }

 private:
  float* exponentials(std::int64_t tile) const { return w_.e32.data() + tile * tile_items * width_; }

  std::int64_t rows_of(std::int64_t tile) const { return std::min(tile_items, items_ - tile * tile_items); }

  /// Rounds to the precision of a product operand.
  void round(float* values, std::int64_t n) const {
    if (rounds_) round_to_bf16(values, n);
  }
  const float* weights_of(PerThread& mine, std::int64_t tile) const {
    if (!rounds_) return weights_ + tile * tile_items * k_;
    to_fp32(weights16_ + tile * tile_items * k_, mine.fp32_weights.data(), tile_items * k_);
    return mine.fp32_weights.data();
  }

  void forward_tile(int thread, std::int64_t t) {
    PerThread& mine = w_.threads[thread];
    float* tile = mine.logits.data();
    engines_[thread]->run_packed(forward_, weights_of(mine, t), w_.forward_operand, tile);
    const std::int64_t rows = rows_of(t);
    float* maximum = w_.maximum.data() + t * width_;
    float* sum = w_.sum.data() + t * width_;
    add_bias_and_max(tile, bias_ + t * tile_items, rows, width_, maximum);
    std::fill_n(sum, width_, 0.0F);
    for (std::int64_t r = 0; r < rows; ++r) {
      float* row = tile + r * width_;
      for_users_of(t * tile_items + r, [&](std::int64_t u) { mine.positive_logits[u] += row[u]; });
      float* e = exponentials(t) + r * width_;
      exponentials_of_row(row, maximum, e, sum, width_);
      round(e, width_);
    }
  }

  // factor_tu = softmax_scale_u exp(m_tu - m_u).
  double finish_softmax() {
    std::vector<double> loss(static_cast<std::size_t>(users_.size()));
    parallel_for_static(threads_, width_, 16, [&](int, Range part) {
      std::vector<float> factor(static_cast<std::size_t>(tiles_));
      for (std::int64_t u = part.begin; u < part.end; ++u) {
        float maximum = -INFINITY;
        for (std::int64_t t = 0; t < tiles_; ++t) maximum = std::max(maximum, w_.maximum[t * width_ + u]);
        for (std::int64_t t = 0; t < tiles_; ++t) factor[t] = w_.maximum[t * width_ + u] - maximum;
        vaecf::cpu::exponentials(factor.data(), tiles_);
        double sum = 0.0;
        for (std::int64_t t = 0; t < tiles_; ++t) {
          sum += static_cast<double>(w_.sum[t * width_ + u]) * static_cast<double>(factor[t]);
        }
        const auto count = u < users_.size() ? std::ssize(positive_items(u)) : 0;
        const math::SoftmaxPart<double> all{maximum, sum};
        const float scale = math::softmax_scale(count, all);
        for (std::int64_t t = 0; t < tiles_; ++t) w_.factor[t * width_ + u] = factor[t] * scale;
        if (count == 0) continue;
        double own = 0.0;
        for (const auto& thread : w_.threads) own += thread.positive_logits[u];
        loss[u] = math::nll(count, all, own);
      }
    });
    double total = 0.0;
    for (const double value : loss) total += value;
    return total;
  }

  void backward_tile(int thread, std::int64_t t, const GradientSink& sink) {
    PerThread& mine = w_.threads[thread];
    const std::int64_t rows = rows_of(t);
    const std::int64_t first = sink.weight.range.begin + t * tile_items * k_;
    float* d_weights = sink.stays_in_cache() ? mine.d_weights.data() : sink.gradients + first;
    float d_bias[tile_items];
    float* gradient = mine.logits.data();
    const float* factor = w_.factor.data() + t * width_;
    for (std::int64_t r = 0; r < rows; ++r) {
      float* row = gradient + r * width_;
      scale_row(exponentials(t) + r * width_, factor, row, width_);
      for_users_of(t * tile_items + r, [&](std::int64_t u) { row[u] -= 1.0F; });
      d_bias[r] = sum_of_row(row, width_);
      round(row, width_);
    }
    std::fill_n(gradient + rows * width_, (tile_items - rows) * width_, 0.0F);
    if (sink.of_weights()) engines_[thread]->run_packed(gradient_, gradient, w_.gradient_operand, d_weights);
    if (sink.of_hidden()) {
      engines_[thread]->run(hidden_gradient_, gradient, weights_of(mine, t), mine.d_hidden.data());
    }
    if (!sink.of_weights()) return;
    if (sink.updates()) sink.update(sink.weight, first, d_weights, rows * k_);
    sink.take(sink.bias, sink.bias.range.begin + t * tile_items, d_bias, rows);
  }

  std::span<const std::unique_ptr<GemmEngine>> engines_;
  Workspace& w_;
  bool rounds_;
  std::int64_t tiles_;
  std::int64_t width_;
  GemmSpec forward_, gradient_, hidden_gradient_;
};

}  // namespace

std::unique_ptr<SoftmaxSlice> Device::softmax_slice(const OutputSlice& slice) {
  if (tiles_) return make_tile_softmax(*tiles_, *workspace_, slice);
  return std::make_unique<SoftmaxLayer>(engines_, *workspace_, slice);
}

void Device::softmax_layer_step(const Activations& hidden, const Batch& batch, const Parameters& parameters,
                                device::Layer layer, StepState& step, Activations& d_hidden,
                                FloatBuffer& gradients, const device::GradientReady& ready,
                                const FusedUpdate* fused, device::SoftmaxGradients which) {
  if (fused != nullptr && step.params.rule.clip_norm > 0.0F) {
    throw std::logic_error("softmax_layer_step: an update with clipping cannot be fused");
  }
  step.users = hidden.rows();
  const auto& weight = parameters.layout().tensors[layer.weight];
  const auto& bias = parameters.layout().tensors[layer.bias];
  GradientSink sink{weight, bias, step, gradients.data(), fused, which};
  if (sink.of_hidden()) d_hidden.set_rows(hidden.rows());
  if (hidden.rows() == 0) {
    if (!sink.of_weights()) return;
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
  const std::int64_t items = weight.spec.columns;
  // Ranges of whole tiles, several per thread, are reported together: about the size of a bucket.
  const std::int64_t stretch = std::max<std::int64_t>(16, 4 * threads_) * tile_items;
  for_each_slice(hidden.rows(), slice_users, [&](Range users, bool first, bool last) {
    const auto slice = softmax_slice({threads_, hidden, batch, parameters, layer, users});
    step.nll += slice->forward();
    sink.first_slice = first;
    sink.last_slice = last;
    const bool reports = last && ready && fused == nullptr && sink.of_weights();
    const std::int64_t at_a_time = reports ? stretch : items;
    for (std::int64_t i = 0; i < items; i += at_a_time) {
      const Range some{i, std::min(i + at_a_time, items)};
      slice->backward(some, sink);
      if (!reports) continue;
      const std::int64_t end = some.end == items ? weight.range.size() : some.end * hidden.columns();
      ready({weight.range.begin + some.begin * hidden.columns(), weight.range.begin + end}, {});
    }
    if (reports) ready(bias.range, {});
    if (sink.of_hidden()) slice->finish_hidden_gradient(d_hidden);
  });
}

}  // namespace vaecf::cpu
