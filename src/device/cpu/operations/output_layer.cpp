#include "device/cpu/operations/output_layer.hpp"

#include <vaecf/math/loss.hpp>

#include <cmath>
#include <stdexcept>

#include "device/cpu/kernels/gemm.hpp"

namespace vaecf::cpu {
namespace {

/// Computes the output layer by fp32 products of `engines`, one per thread, in tiles of items. In
/// bf16, each product operand is rounded first. Derived classes compute the gradient with respect to the
/// logits.
///
/// Pass 2 computes a tile of that gradient in cache. It uses the gradient for dW and for this thread's part
/// of d_hidden. dW is written tile by tile, or applied to the weights once d_hidden has used them.
class ProductBlock : protected OutputOperands, public OutputBlock {
 public:
  void backward(Range items, const GradientSink& sink) override {
    const Range tiles{items.begin / tile_items, (items.end + tile_items - 1) / tile_items};
    gradient_.accumulate = sink.adds();  // before packing: the layout belongs to the whole spec
    if (tiles.begin == 0) {
      if (sink.of_weights()) engines_[0]->pack(gradient_, w_.hidden.data(), w_.gradient_operand);
      for (PerThread& t : w_.threads) {
        if (sink.of_hidden()) std::fill_n(t.d_hidden.data(), width_ * k_, 0.0F);
        if (sink.stays_in_cache()) t.d_weights.reserve(tile_items * k_);
      }
    }
    parallel_for(threads_, tiles.size(),
                 [&](int thread, std::int64_t t) { backward_tile(thread, tiles.begin + t, sink); });
  }

  void finish_hidden_gradient(float* d_hidden) const override {
    parallel_for(threads_, users_.size(), [&](int, std::int64_t u) {
      float* row = d_hidden + (users_.begin + u) * k_;
      std::copy_n(w_.threads[0].d_hidden.data() + u * k_, k_, row);
      for (std::size_t t = 1; t < w_.threads.size(); ++t)
        add(row, w_.threads[t].d_hidden.data() + u * k_, k_);
    });
  }

  ProductBlock(std::span<const std::unique_ptr<GemmEngine>> engines, Workspace& workspace,
               const OutputOperands& operands)
      : OutputOperands(operands),
        engines_(engines),
        w_(workspace),
        rounds_(weights16_ != nullptr),
        tiles_((items_ + tile_items - 1) / tile_items),
        width_((users_.size() + 3) / 4 * 4) {
    if (!batch_.has_transpose) throw std::logic_error("output layer: the batch must have its transpose");
    w_.hidden.reserve(width_ * k_);
    for (PerThread& t : w_.threads) {
      t.logits.reserve(tile_items * width_);
      t.d_hidden.reserve(width_ * k_);
      if (rounds_) t.fp32_weights.reserve(tile_items * k_);
    }
    forward_ = {.m = tile_items, .n = width_, .k = k_, .b_transposed = true};
    gradient_ = {.m = tile_items, .n = k_, .k = width_};
    hidden_gradient_ = {.m = width_, .n = k_, .k = tile_items, .a_transposed = true, .accumulate = true};
  }

 protected:
  using PerThread = Workspace::PerThread;

  /// Prepares the hidden units as operand of forward_product(). Rows of absent users (width is a multiple of
  /// 4) are zero: their logits are the bias.
  void load_hidden() {
    float* to = w_.hidden.data();
    parallel_for(threads_, users_.size(), [&](int, std::int64_t u) {
      std::copy_n(hidden(u), k_, to + u * k_);
      round(to + u * k_, k_);
    });
    std::fill_n(to + users_.size() * k_, (width_ - users_.size()) * k_, 0.0F);
    engines_[0]->pack(forward_, to, w_.forward_operand);
  }

  /// Writes the transposed logits (tile_items, width) of tile `t`, without bias, to the thread's `logits`.
  void forward_product(int thread, std::int64_t t) {
    PerThread& mine = w_.threads[thread];
    engines_[thread]->run_packed(forward_, weights_of(mine, t), w_.forward_operand, mine.logits.data());
  }

  /// Prepares the thread's `logits` for gradient_of_item() of tile `t`.
  virtual void start_tile(int /*thread*/, std::int64_t /*t*/) {}
  /// Writes the loss's gradient with respect to the logits of row `r` of tile `t` to `row` (width), which is
  /// that row of the thread's `logits`; 0 for absent users.
  virtual void gradient_of_item(int thread, std::int64_t t, std::int64_t r, float* row) = 0;

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

  std::span<const std::unique_ptr<GemmEngine>> engines_;
  Workspace& w_;
  bool rounds_;
  std::int64_t tiles_;
  std::int64_t width_;

 private:
  void backward_tile(int thread, std::int64_t t, const GradientSink& sink) {
    PerThread& mine = w_.threads[thread];
    const std::int64_t rows = rows_of(t);
    const std::int64_t first = sink.weight.range.begin + t * tile_items * k_;
    float* d_weights = sink.stays_in_cache() ? mine.d_weights.data() : sink.flat(first);
    float d_bias[tile_items];
    float* gradient = mine.logits.data();
    start_tile(thread, t);
    for (std::int64_t r = 0; r < rows; ++r) {
      float* row = gradient + r * width_;
      gradient_of_item(thread, t, r, row);
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

  MatmulSpec forward_, gradient_, hidden_gradient_;
};

/// The output layer with the multinomial loss.
///
/// Pass 1 computes a tile of transposed logits, (tile_items, width), and stores E = exp(logit - m_t), where
/// m_t is the user's maximum within this tile. E is in [0, 1] for all logits, so nothing can overflow, and
/// bf16 stores it with a relative error of 2^-9. The sums and maxima of all tiles give each user's
/// log-sum-exp.
///
/// Pass 2 turns E into the gradient N_u softmax - x = E exp(m_t - lse) N_u - x. This takes one exp per logit,
/// and E is the only (B, I) array.
class SoftmaxBlock : public ProductBlock {
 public:
  using ProductBlock::ProductBlock;

  void forward() override {
    load_hidden();
    w_.e32.reserve(tiles_ * tile_items * width_);
    for (auto* values : {&w_.maximum, &w_.sum, &w_.factor}) values->reserve(tiles_ * width_);
    for (PerThread& t : w_.threads) {
      t.positive_logits.reserve(width_);
      std::fill_n(t.positive_logits.data(), width_, 0.0);
    }
    parallel_for(threads_, tiles_, [&](int thread, std::int64_t t) { forward_tile(thread, t); });
    nll_ = finish_softmax();
  }
  double loss() const override { return nll_; }

 private:
  float* exponentials(std::int64_t tile) const { return w_.e32.data() + tile * tile_items * width_; }

  // The factor of absent users is 0.
  void gradient_of_item(int /*thread*/, std::int64_t t, std::int64_t r, float* row) override {
    scale_row(exponentials(t) + r * width_, w_.factor.data() + t * width_, row, width_);
    for_users_of(t * tile_items + r, [&](std::int64_t u, float value) { row[u] -= value; });
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
      for_users_of(t * tile_items + r, [&](std::int64_t u, float value) {
        mine.positive_logits[u] += static_cast<double>(value) * row[u];
      });
      float* e = exponentials(t) + r * width_;
      exponentials_of_row(row, maximum, e, sum, width_);
      round(e, width_);
    }
  }

  // factor_tu = softmax_scale_u exp(m_tu - m_u).
  double finish_softmax() {
    std::vector<math::SoftmaxPart<double>> all(static_cast<std::size_t>(users_.size()));
    parallel_for_static(threads_, width_, 16, [&](int, Range part) {
      std::vector<float> factor(static_cast<std::size_t>(tiles_));
      for (std::int64_t u = part.begin; u < part.end; ++u) {
        float maximum = math::SoftmaxPart<double>().maximum;
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
        const RowTotals& totals = totals_of_user(u);
        const float below = std::exp(local[u].maximum - all[u].maximum);
        const float scale = totals.sum == 0.0F ? 0.0F : math::softmax_scale(totals.sum, all[u]) * below;
        for (std::int64_t t = 0; t < tiles_; ++t) w_.factor[t * width_ + u] *= scale;
        double own = 0.0;
        for (const auto& thread : w_.threads) own += thread.positive_logits[u];
        loss[u] = math::nll(totals.part, all[u], own);
      }
    });
    double total = 0.0;
    for (const double value : loss) total += value;
    return total;
  }

  double nll_ = 0.0;
};

/// The output layer with sigmoid and the mean squared error. A tile's logits are computed,
/// replaced by gradients and used by the products while they are in cache, so there is no (B, I) array.
class SquaredBlock : public ProductBlock {
 public:
  using ProductBlock::ProductBlock;

  void forward() override {
    load_hidden();
    w_.sum.reserve(tiles_ * width_);
    for (PerThread& t : w_.threads) t.error.reserve(width_);
  }

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
    for_users_of(item, [&](std::int64_t u, float) { error[u] -= 1.0F; });
    squared_error_of_row(row, error, 1.0F / static_cast<float>(batch_.items.all), w_.sum.data() + t * width_,
                         users_.size());
    std::fill(row + users_.size(), row + width_, 0.0F);
  }
};

}  // namespace

void Device::output_layer_step(Loss loss, const Matrix& hidden, const device::Batch& any_batch, Layer layer,
                               OutputGradients which, Matrix& d_hidden, const Backward& backward) {
  const auto& batch = own<Batch>(any_batch);
  auto& step = own<StepState>(backward.step);
  const Parameters& parameters = backward.parameters;
  if (backward.fused != nullptr && step.params.rule.clip_norm > 0.0F) {
    throw std::logic_error("output layer: an update with clipping cannot be fused");
  }
  step.users = batch.own().size();
  const auto& tensors = parameters.layout().tensors;
  GradientSink sink{backward, tensors[layer.weight], tensors[layer.bias], which, batch.users(), {}};
  float* d_of_all = sink.of_hidden() ? rows_of_all_users(batch, d_hidden, workspace_->sums) : nullptr;
  if (batch.users() == 0) return sink.take_zeros();
  const float* all = gather_from_owners(batch, hidden, workspace_->gathered);
  const auto make_block = [&](const OutputOperands& operands) -> std::unique_ptr<OutputBlock> {
    if (loss == Loss::squared) return std::make_unique<SquaredBlock>(engines_, *workspace_, operands);
    if (tiles_) return make_tile_softmax(*tiles_, *workspace_, operands);
    return std::make_unique<SoftmaxBlock>(engines_, *workspace_, operands);
  };
  for_each_block(batch.users(), block_users(batch.items), [&](Range users) {
    const auto block = make_block({threads_, all, batch, parameters, layer, users});
    block->forward();
    sink.users = users;
    sink.take_items(threads_, [&](Range items) { block->backward(items, sink); });
    step.nll += block->loss();
    if (sink.of_hidden()) block->finish_hidden_gradient(d_of_all);
  });
  if (sink.of_hidden()) sum_to_owners(batch, d_of_all, d_hidden);
}

}  // namespace vaecf::cpu
