// The table of item vectors, whose rows have norm 1, with the cosine loss and its gradient. No operation
// computes (B, I) scores.
#include <vaecf/math/loss.hpp>

#include <type_traits>

#include "device/cuda/device.hpp"
#include "device/cuda/operations/vec8.hpp"
#include "device/cuda/platform/launch.hpp"

namespace vaecf::cuda {
namespace {

/// Returns the sum of the products of the elements of two rows of eights.
template <class ThreadGroup>
VAECF_HD float dot(ThreadGroup& thread_group, std::int64_t eights, const float* a, const float* b) {
  return thread_group.sum(eights, [&](std::int64_t eight) {
    const Vec8 x = load_vec8(a + 8 * eight);
    const Vec8 y = load_vec8(b + 8 * eight);
    float sum = 0.0F;
    for (int j = 0; j < 8; ++j) sum += x.at[j] * y.at[j];
    return sum;
  });
}

/// One item per warp.
template <class T>
struct NormalizeRow {
  static constexpr int threads = 32;
  const float* weights;  // (items, stride)
  std::int64_t stride;
  float* table;
  T* copy;

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t item) const {
    const std::int64_t at = item * stride;
    const float inverse = math::inverse_norm(dot(thread_group, stride / 8, weights + at, weights + at));
    thread_group.each(stride / 8, [&](std::int64_t eight) {
      Vec8 row = load_vec8(weights + at + 8 * eight);
      for (int j = 0; j < 8; ++j) row.at[j] *= inverse;
      store_vec8(table + at + 8 * eight, row);
      if constexpr (!std::is_same_v<T, float>) store_vec8(copy + at + 8 * eight, row);
    });
  }
};

/// Turns the gradient with respect to the item's normalized row into that with respect to its weights. One
/// item per warp.
struct NormalizationGradient {
  static constexpr int threads = 32;
  const float* weights;  // (items, stride), from the first item on
  std::int64_t stride;
  float* gradient;

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t item) const {
    const float* w = weights + item * stride;
    float* d = gradient + item * stride;
    const float inverse = math::inverse_norm(dot(thread_group, stride / 8, w, w));
    const float along = dot(thread_group, stride / 8, w, d);
    thread_group.each(stride / 8, [&](std::int64_t eight) {
      const Vec8 row = load_vec8(w + 8 * eight);
      Vec8 result = load_vec8(d + 8 * eight);
      for (int j = 0; j < 8; ++j)
        result.at[j] = math::normalization_gradient(result.at[j], row.at[j], inverse, along);
      store_vec8(d + 8 * eight, result);
    });
  }
};

/// One user per block. Replaces the row of M h by the gradient.
struct CosineUser {
  static constexpr int threads = 64;
  const DeviceStepState* state;
  const RowTotals* totals;  // (users)
  const float* hidden;      // (users, stride)
  std::int64_t stride;
  float* gradient;  // (users, stride)
  float* weighted;  // (users, stride)
  double* losses;   // (users)

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t user) const {
    const float* h = hidden + user * stride;
    float* d = gradient + user * stride;
    float* to = weighted + user * stride;
    const double norm =
        thread_group.sum(stride, [&](std::int64_t k) { return static_cast<double>(h[k]) * h[k]; });
    const double product =
        thread_group.sum(stride, [&](std::int64_t k) { return static_cast<double>(h[k]) * d[k]; });
    const math::CosineLoss of = math::cosine_loss(totals[user].sum > 0.0F, norm, product);
    const float scale = state->scale.scale;
    const float weight = scale * static_cast<float>(2.0 * of.d_q);
    thread_group.each(1, [&](std::int64_t) { losses[user] = of.loss; });
    thread_group.each(stride, [&](std::int64_t k) {
      d[k] = scale * math::cosine_gradient(of, h[k], d[k]);
      to[k] = weight * h[k];
    });
  }
};

}  // namespace

void Device::normalize_rows(const Parameters& parameters, int tensor, Parameters& normalized, int table) {
  const NvtxRange nvtx("forward: normalize rows");
  const TensorLayout& from = parameters.layout().tensors[tensor];
  const TensorLayout& to = normalized.layout().tensors[table];
  dispatch_dtype(dtype(), [&]<class T>(T) {
    launch(
        stream_, from.spec.rows,
        NormalizeRow<T>{parameters.weights(tensor), from.stride, normalized.master().data() + to.range.begin,
                        reinterpret_cast<T*>(normalized.copy_of(to.range.begin))});
  });
}

void Device::table_gram(const Parameters& normalized, int table, Matrix& gram) {
  const NvtxRange nvtx("forward: Gram matrix");
  const TensorLayout& a = normalized.layout().tensors[table];
  gram.set_rows(a.spec.rows);
  const MatmulSpec spec{.m = a.spec.rows,
                        .n = a.stride,
                        .k = a.spec.columns,
                        .a_transposed = true,
                        .lda = a.stride,
                        .ldc = gram.stride(),
                        .operands = dtype()};
  if (spec.k == 0) {
    stream_.memset_zero(gram.values(), gram.rows() * gram.stride() * 4);
  } else {
    matmuls_.run(stream_, spec, normalized.operand(table), normalized.operand(table), gram.values());
  }
  update_half_copy(gram);
}

void Device::cosine_step(const Matrix& hidden, const device::Batch& batch_base, const Matrix& gram,
                         Matrix& d_hidden, Matrix& d_gram, device::StepState& step_base) {
  const auto& batch = own<Batch>(batch_base);
  auto& step = own<StepState>(step_base);
  const NvtxRange nvtx("loss");
  const std::int64_t users = hidden.rows();
  const std::int64_t stride = hidden.stride();
  const std::int64_t gram_size = hidden.columns() * stride;
  d_hidden.set_rows(users);
  d_gram.set_rows(hidden.columns());
  const auto clear = [&] {
    stream_.memset_zero(d_gram.values(), gram_size * 4);
    update_half_copy(d_gram);
  };
  if (batch.users() == 0) return clear();
  Exchange exchange(*this, batch);
  const float* all_gram = gram.values();
  if (!exchange.alone()) {
    exchange.values_memory(gram_size);
    auto* sum = scratch_.get<float>(Scratch::sums_of_all, gram_size, "the Gram matrix of all items");
    stream_.copy(sum, gram.values(), gram_size * 4);
    exchange.add_over_item_slices(sum, gram_size);
    all_gram = sum;
  }
  if (users == 0) {
    clear();
    exchange.add_over_item_slices(d_gram.values(), gram_size);
    return update_half_copy(d_gram);
  }
  const MatmulSpec by_gram{.m = users, .n = stride, .k = hidden.columns(), .lda = stride};
  matmuls_.run(stream_, by_gram, hidden.values(), all_gram, d_hidden.values());
  auto* weighted = scratch_.get<float>(Scratch::hidden, users * stride, "the weighted sums of users' items");
  launch(stream_, users,
         CosineUser{.state = step.device_state.data(),
                    .totals = batch.totals.data() + batch.own().begin,
                    .hidden = hidden.values(),
                    .stride = stride,
                    .gradient = d_hidden.values(),
                    .weighted = weighted,
                    .losses = user_losses(batch.own(), step.nll, step)});
  const MatmulSpec outer{.m = hidden.columns(), .n = stride, .k = users, .a_transposed = true, .lda = stride};
  matmuls_.run(stream_, outer, weighted, hidden.values(), d_gram.values());
  exchange.add_over_item_slices(d_gram.values(), gram_size);
  update_half_copy(d_gram);
}

void Device::normalize_rows_backward(int tensor, const Parameters& normalized, int table,
                                     const Matrix& d_gram, const Backward& backward) {
  const NvtxRange nvtx("backward: item table");
  const TensorLayout& weight = backward.layout().tensors[tensor];
  const std::int64_t stride = weight.stride;
  write_table_gradient(weight, backward, [&](Range items) {
    const std::int64_t begin = weight.range.begin + items.begin * stride;
    const MatmulSpec spec{.m = items.size(),
                          .n = stride,
                          .k = weight.spec.columns,
                          .lda = stride,
                          .accumulate = true,
                          .operands = dtype()};
    const auto* rows =
        static_cast<const std::byte*>(normalized.operand(table)) + items.begin * stride * size_of(dtype());
    matmuls_.run(stream_, spec, rows, d_gram.operand(), backward.gradients.data() + begin);
    launch(stream_, items.size(),
           NormalizationGradient{backward.parameters.weights(tensor) + items.begin * stride, stride,
                                 backward.gradients.data() + begin});
  });
}

}  // namespace vaecf::cuda
