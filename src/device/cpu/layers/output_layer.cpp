#include <vaecf/math/loss.hpp>

#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>

#include "device/cpu/device.hpp"
#include "device/cpu/layers/exchange.hpp"
#include "device/cpu/layers/product_block.hpp"

namespace vaecf::cpu {
namespace {

/// A block of the output layer with the multinomial loss.
///
/// Pass 1 computes a tile of transposed logits, (tile_items, width), and stores E = exp(logit - m_t), where
/// m_t is the user's maximum within this tile. E is in [0, 1] for all logits, so nothing can overflow, and
/// bf16 stores it with a relative error of 2^-9. The sums and maxima of all tiles give each user's
/// log-sum-exp.
///
/// Pass 2 turns E into the gradient N_u softmax - x = E exp(m_t - lse) N_u - x. This takes one exp per logit,
/// and E is the only (B, I) array.
class SoftmaxLayer : public ProductBlock {
 public:
  SoftmaxLayer(std::span<const std::unique_ptr<GemmEngine>> engines, Workspace& workspace,
               const OutputBlock& block)
      : ProductBlock(engines, workspace, block) {
    w_.e32.reserve(tiles_ * tile_items * width_);
    for (auto* values : {&w_.maximum, &w_.sum, &w_.factor}) values->reserve(tiles_ * width_);
    for (PerThread& t : w_.threads) t.positive_logits.reserve(width_);
  }

  void forward() override {
    load_hidden();
    for (PerThread& t : w_.threads) std::fill_n(t.positive_logits.data(), width_, 0.0);
    parallel_for(threads_, tiles_, [&](int thread, std::int64_t t) { forward_tile(thread, t); });
    nll_ = finish_softmax();
  }
  double loss() const override { return nll_; }

 private:
  float* exponentials(std::int64_t tile) const { return w_.e32.data() + tile * tile_items * width_; }

  // The factor of absent users is 0.
  void gradient_of_item(int /*thread*/, std::int64_t t, std::int64_t r, float* row) override {
    scale_row(exponentials(t) + r * width_, w_.factor.data() + t * width_, row, width_);
    for_users_of(t * tile_items + r, [&](std::int64_t u) { row[u] -= 1.0F; });
  }

  void forward_tile(int thread, std::int64_t t) {
    PerThread& mine = w_.threads[thread];
    float* tile = mine.logits.data();
    forward_product(thread, t);
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
    const math::SoftmaxPart<double> nothing;
    std::vector<math::SoftmaxPart<double>> all(static_cast<std::size_t>(users_.size()));
    parallel_for_static(threads_, width_, 16, [&](int, Range part) {
      std::vector<float> factor(static_cast<std::size_t>(tiles_));
      for (std::int64_t u = part.begin; u < part.end; ++u) {
        float maximum = nothing.maximum;
        for (std::int64_t t = 0; t < tiles_; ++t) maximum = std::max(maximum, w_.maximum[t * width_ + u]);
        for (std::int64_t t = 0; t < tiles_; ++t) factor[t] = w_.maximum[t * width_ + u] - maximum;
        vaecf::cpu::exponentials(factor.data(), tiles_);
        double sum = 0.0;
        for (std::int64_t t = 0; t < tiles_; ++t) {
          sum += static_cast<double>(w_.sum[t * width_ + u]) * static_cast<double>(factor[t]);
          w_.factor[t * width_ + u] = u < users_.size() ? factor[t] : 0.0F;
        }
        if (u < users_.size()) all[u] = {maximum, sum};
      }
    });
    const std::vector<math::SoftmaxPart<double>> local = all;
    merge_over_item_slices(batch_.model_parallel(), all);
    std::vector<double> loss(all.size());
    parallel_for_static(threads_, users_.size(), 16, [&](int, Range part) {
      for (std::int64_t u = part.begin; u < part.end; ++u) {
        const std::int64_t count = all_positive_items(u);
        const float below = std::exp(local[u].maximum - all[u].maximum);
        const float scale = count == 0 ? 0.0F : math::softmax_scale(count, all[u]) * below;
        for (std::int64_t t = 0; t < tiles_; ++t) w_.factor[t * width_ + u] *= scale;
        double own = 0.0;
        for (const auto& thread : w_.threads) own += thread.positive_logits[u];
        loss[u] = math::nll(positive_items(u), all[u], own);
      }
    });
    double total = 0.0;
    for (const double value : loss) total += value;
    return total;
  }

  double nll_ = 0.0;
};

/// A block of the output layer with sigmoid and the mean squared error. A tile's logits are computed,
/// replaced by gradients and used by the products while they are in cache, so there is no (B, I) array.
class SquaredErrorBlock : public ProductBlock {
 public:
  SquaredErrorBlock(std::span<const std::unique_ptr<GemmEngine>> engines, Workspace& workspace,
                    const OutputBlock& block)
      : ProductBlock(engines, workspace, block) {
    w_.sum.reserve(tiles_ * width_);
    for (PerThread& t : w_.threads) t.error.reserve(width_);
  }

  void forward() override { load_hidden(); }

  double loss() const override {
    double total = 0.0;
    for (std::int64_t u = 0; u < users_.size(); ++u) {
      for (std::int64_t t = 0; t < tiles_; ++t) total += static_cast<double>(w_.sum[t * width_ + u]);
    }
    return total / static_cast<double>(batch_.items.all);
  }

 private:
  void start_tile(int thread, std::int64_t t) override {
    forward_product(thread, t);
    std::fill_n(w_.sum.data() + t * width_, width_, 0.0F);
  }

  void gradient_of_item(int thread, std::int64_t t, std::int64_t r, float* row) override {
    const std::int64_t item = t * tile_items + r;
    float* error = w_.threads[thread].error.data();
    sigmoid_of_row(row, bias_[item], error, users_.size());
    for_users_of(item, [&](std::int64_t u) { error[u] -= 1.0F; });
    squared_error_of_row(row, error, 1.0F / static_cast<float>(batch_.items.all), w_.sum.data() + t * width_,
                         users_.size());
    std::fill(row + users_.size(), row + width_, 0.0F);
  }
};

}  // namespace

std::unique_ptr<LossBlock> Device::loss_block(Loss loss, const OutputBlock& block) {
  if (loss == Loss::squared) return std::make_unique<SquaredErrorBlock>(engines_, *workspace_, block);
  if (tiles_) return make_tile_softmax(*tiles_, *workspace_, block);
  return std::make_unique<SoftmaxLayer>(engines_, *workspace_, block);
}

void Device::output_layer_step(Loss loss, const Matrix& hidden, const device::Batch& any_batch, Layer layer,
                               OutputGradients which, Matrix& d_hidden, const Backward& backward) {
  const auto& batch = own<Batch>(any_batch);
  auto& step = own<StepState>(backward.step);
  const auto& [parameters, any_step, gradients, ready, fused] = backward;
  if (fused != nullptr && step.params.rule.clip_norm > 0.0F) {
    throw std::logic_error("output layer: an update with clipping cannot be fused");
  }
  step.users = batch.own().size();
  const auto& weight = parameters.layout().tensors[layer.weight];
  const auto& bias = parameters.layout().tensors[layer.bias];
  GradientSink sink{weight, bias, step, gradients.data(), fused, which};
  float* d_of_all = sink.of_hidden() ? rows_of_all_users(batch, d_hidden, workspace_->sums) : nullptr;
  if (batch.users() == 0) {
    if (!sink.of_weights()) return;
    for (const auto* tensor : {&weight, &bias}) {
      float* gradient = gradients.data() + tensor->range.begin;
      std::fill_n(gradient, tensor->range.size(), 0.0F);
      if (fused != nullptr)
        sink.update(*tensor, tensor->range.begin, gradient, tensor->range.size());
      else if (ready && tensor->range.size() > 0)
        ready(tensor->range, {});
    }
    return;
  }
  const float* all = gather_from_owners(batch, hidden, workspace_->gathered);
  const std::int64_t items = weight.spec.columns;
  // Ranges of whole tiles, several per thread, are reported together: about the size of a bucket.
  const std::int64_t stretch = std::max<std::int64_t>(16, 4 * threads_) * tile_items;
  for_each_block(batch.users(), block_users(batch.items), [&](Range users, bool first, bool last) {
    const auto block = loss_block(loss, {threads_, all, batch, parameters, layer, users});
    block->forward();
    sink.first_block = first;
    sink.last_block = last;
    const bool reports = last && ready && fused == nullptr && sink.of_weights() && items > 0;
    const std::int64_t at_a_time = reports ? stretch : items;
    std::int64_t i = 0;
    do {
      const Range some{i, std::min(i + at_a_time, items)};
      block->backward(some, sink);
      i = some.end;
      if (!reports) continue;
      const std::int64_t end = some.end == items ? weight.range.size() : some.end * weight.stride;
      ready({weight.range.begin + some.begin * weight.stride, weight.range.begin + end}, {});
    } while (i < items);
    if (reports) ready(bias.range, {});
    step.nll += block->loss();
    if (sink.of_hidden()) block->finish_hidden_gradient(d_of_all);
  });
  if (sink.of_hidden()) sum_to_owners(batch, d_of_all, d_hidden);
}

}  // namespace vaecf::cpu
