// The table of item vectors, whose rows have norm 1, with the cosine loss and its gradient. No operation
// computes (B, I) scores.
#include <vaecf/math/elementwise.hpp>
#include <vaecf/math/loss.hpp>

#include "device/cpu/device.hpp"
#include "device/cpu/kernels/gemm.hpp"
#include "device/cpu/kernels/vector_kernels.hpp"
#include "device/cpu/parallel.hpp"

namespace vaecf::cpu {
namespace {

// Products of fixed sizes, and sums of fixed parts in a fixed order: results do not depend on the number of
// threads.
constexpr std::int64_t gram_parts = 32;
constexpr std::int64_t product_rows = 32;

float dot(const float* a, const float* b, std::int64_t n) {
  return math::SingleThread().sum(n, [&](std::int64_t k) { return a[k] * b[k]; });
}

}  // namespace

void Device::normalize_rows(const Parameters& parameters, int tensor, Parameters& normalized, int table) {
  const TensorSpec& spec = parameters.layout().tensors[tensor].spec;
  const std::int64_t width = spec.columns;
  const std::int64_t begin = normalized.layout().tensors[table].range.begin;
  parallel_for(threads_, spec.rows, [&](int, std::int64_t item) {
    const float* from = parameters.weights(tensor) + item * width;
    float* to = normalized.master().data() + begin + item * width;
    const float inverse = math::inverse_norm(dot(from, from, width));
    for (std::int64_t k = 0; k < width; ++k) to[k] = inverse * from[k];
  });
  refresh_copies(normalized, {begin, begin + spec.rows * width});
}

void Device::table_gram(const Parameters& normalized, int table, Matrix& gram) {
  const std::int64_t width = gram.columns();
  const std::int64_t items = normalized.layout().tensors[table].spec.columns;
  const std::int64_t part_items = std::max<std::int64_t>((items + gram_parts - 1) / gram_parts, 1);
  const std::int64_t parts = (items + part_items - 1) / part_items;
  const std::int64_t size = width * width;
  const void* a = normalized.operand(table);
  workspace_->products.reserve(parts * size);
  float* sums = workspace_->products.data();
  parallel_for_dynamic(threads_, parts, 1, [&](int thread, Range part) {
    const std::int64_t first = part.begin * part_items;
    const MatmulSpec spec{.m = width,
                          .n = width,
                          .k = std::min(part_items, items - first),
                          .a_transposed = true,
                          .operands = dtype()};
    const void* rows = element(a, first * width);
    engines_[thread]->run(spec, rows, rows, sums + part.begin * size);
  });
  gram.set_rows(width);
  if (parts == 0) {
    std::fill_n(gram.row(0), size, 0.0F);
    return;
  }
  parallel_for_static(threads_, size, 1024, [&](int, Range some) {
    std::copy_n(sums + some.begin, some.size(), gram.row(0) + some.begin);
    for (std::int64_t part = 1; part < parts; ++part) {
      add(gram.row(0) + some.begin, sums + part * size + some.begin, some.size());
    }
  });
}

void Device::cosine_step(const Matrix& hidden, const device::Batch& any_batch, const Matrix& gram,
                         Matrix& d_hidden, Matrix& d_gram, device::StepState& any_step) {
  const auto& batch = own<Batch>(any_batch);
  auto& step = own<StepState>(any_step);
  ModelParallelGroup& model_parallel = batch.model_parallel();
  const std::int64_t users = hidden.rows();
  const std::int64_t first_user = batch.own().begin;
  const std::int64_t width = hidden.columns();
  const std::int64_t size = width * width;
  d_hidden.set_rows(users);
  d_gram.set_rows(width);
  step.users = users;
  workspace_->products.reserve(users * width);
  const float* of_all_items = gram.row(0);
  if (model_parallel.count() > 1) {
    workspace_->sums.reserve(size);
    std::copy_n(gram.row(0), size, workspace_->sums.data());
    sum_over_item_slices(model_parallel, {workspace_->sums.data(), static_cast<std::size_t>(size)},
                         workspace_->gathered);
    of_all_items = workspace_->sums.data();
  }
  float* weighted = workspace_->products.data();
  std::vector<double> losses(static_cast<std::size_t>(users));
  parallel_for_dynamic(threads_, users, product_rows, [&](int thread, Range some) {
    const MatmulSpec spec{.m = some.size(), .n = width, .k = width};
    engines_[thread]->run(spec, hidden.row(some.begin), of_all_items, d_hidden.row(some.begin));
    for (std::int64_t u = some.begin; u < some.end; ++u) {
      const float* h = hidden.row(u);
      float* d = d_hidden.row(u);
      const math::SingleThread thread_group;
      const double norm =
          thread_group.sum(width, [&](std::int64_t k) { return static_cast<double>(h[k]) * h[k]; });
      const double product =
          thread_group.sum(width, [&](std::int64_t k) { return static_cast<double>(h[k]) * d[k]; });
      const math::CosineLoss of = math::cosine_loss(batch.totals[first_user + u].sum > 0.0F, norm, product);
      losses[u] = of.loss;
      for (std::int64_t k = 0; k < width; ++k) {
        d[k] = math::cosine_gradient(of, h[k], d[k]);
        weighted[u * width + k] = static_cast<float>(2.0 * of.d_q) * h[k];
      }
    }
  });
  for (const double loss : losses) step.nll += loss;
  if (users == 0) {
    std::fill_n(d_gram.row(0), size, 0.0F);
  } else {
    parallel_for_dynamic(threads_, width, product_rows, [&](int thread, Range some) {
      const MatmulSpec spec{.m = some.size(), .n = width, .k = users, .a_transposed = true, .lda = width};
      engines_[thread]->run(spec, weighted + some.begin, hidden.row(0), d_gram.row(some.begin));
    });
  }
  sum_over_item_slices(model_parallel, first_rows(d_gram, width), workspace_->gathered);
}

void Device::normalize_rows_backward(int tensor, const Parameters& normalized, int table,
                                     const Matrix& d_gram, const Backward& backward) {
  const Parameters& parameters = backward.parameters;
  const TensorLayout& weight = parameters.layout().tensors[tensor];
  const std::int64_t width = weight.spec.columns;
  const void* a = normalized.operand(table);
  const void* s = operand(d_gram.row(0), width * width, workspace_->weights16);
  float* to = backward.gradients.data() + weight.range.begin;
  const auto write = [&](Range items) {
    parallel_for_dynamic(threads_, items.size(), tile_items, [&](int thread, Range some) {
      const std::int64_t item = items.begin + some.begin;
      const MatmulSpec spec{
          .m = some.size(), .n = width, .k = width, .accumulate = true, .operands = dtype()};
      engines_[thread]->run(spec, element(a, item * width), s, to + item * width);
      for (std::int64_t i = item; i < items.begin + some.end; ++i) {
        const float* w = parameters.weights(tensor) + i * width;
        float* d = to + i * width;
        const float inverse = math::inverse_norm(dot(w, w, width));
        const float along = dot(w, d, width);
        for (std::int64_t k = 0; k < width; ++k) {
          d[k] = math::normalization_gradient(d[k], w[k], inverse, along);
        }
      }
    });
  };
  backward.write_rows(weight, reported_items, write, [] { return EventHandle{}; });
}

}  // namespace vaecf::cpu
