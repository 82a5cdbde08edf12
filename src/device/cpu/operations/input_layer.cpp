#include <vaecf/math/elementwise.hpp>
#include <vaecf/math/random.hpp>

#include <stdexcept>

#include "device/cpu/device.hpp"
#include "device/cpu/kernels/vector_kernels.hpp"
#include "device/cpu/parallel.hpp"

namespace vaecf::cpu {

namespace {

/// Returns the factor of the values of each user's items; 0 if dropout drops the user's history.
std::vector<float> input_scales(const Batch& b, InputScaling scaling, const device::StepParams& key) {
  const std::uint64_t threshold = math::dropout_threshold(scaling.history_keep_prob);
  std::vector<float> scales;
  for (std::int64_t u = 0; u < b.users(); ++u) {
    const bool kept = scaling.history_keep_prob >= 1.0F ||
                      math::dropout_keeps_history(key.seed, key.step, b.user_numbers[u], threshold);
    const float scale = math::input_scale(b.totals[u].norm, scaling.normalized);
    scales.push_back(kept ? scale / scaling.item_keep_prob : 0.0F);
  }
  return scales;
}

/// Computes the weight gradient of single items. One thread sums over the item's users, except those for
/// which dropout drops the item. No atomics, so the result is bitwise reproducible.
struct TableGradient {
  const Batch& b;  // must have its transpose
  const device::StepParams& key;
  float keep_prob;
  const float* d;                   // (users, width): gradient before the activation
  const std::vector<float>& scale;  // input scale of each user
  std::int64_t width;
  std::uint64_t threshold = math::dropout_threshold(keep_prob);

  void row(std::int64_t item, float* to) const {
    std::fill_n(to, width, 0.0F);
    for (std::int32_t k = b.item_begin[item]; k < b.item_begin[item + 1]; ++k) {
      const std::int32_t u = b.item_users[k];
      const bool kept = keep_prob >= 1.0F ||
                        math::dropout_keeps_item(key.seed, key.step, b.user_numbers[u],
                                                 static_cast<std::uint32_t>(b.items.global(item)), threshold);
      if (!kept || scale[u] == 0.0F) continue;
      add_scaled(to, d + u * width, scale[u] * value_at(b.item_values, static_cast<std::size_t>(k)), width);
    }
  }
};

/// Writes the gradient row by row; threads take `grain` rows at a time.
void write_gradient(const TableGradient& gradient, const TensorLayout& table, std::int64_t grain, int threads,
                    const Backward& backward) {
  float* to = backward.gradients.data() + table.range.begin;
  const auto write = [&](Range items) {
    parallel_for_dynamic(threads, items.size(), grain, [&](int, Range part) {
      for (std::int64_t i = items.begin + part.begin; i < items.begin + part.end; ++i) {
        gradient.row(i, to + i * gradient.width);
      }
    });
  };
  backward.write_rows(table, reported_items, write, [] { return EventHandle{}; });
}

/// Updates each row of `table` while its gradient is in cache.
void update_rows(const TableGradient& gradient, const TensorLayout& table, const UpdateRule& rule,
                 int threads, const FusedUpdate& fused) {
  parallel_for_dynamic(threads, table.spec.rows, 64, [&](int, Range part) {
    std::vector<float> sum(static_cast<std::size_t>(gradient.width));
    for (std::int64_t item = part.begin; item < part.end; ++item) {
      gradient.row(item, sum.data());
      const std::int64_t at = table.range.begin + item * gradient.width;
      update_elements(rule, sum.data(), fused.first_moment.data() + at, fused.second_moment.data() + at,
                      fused.parameters.master().data() + at, nullptr, gradient.width);
    }
  });
}

}  // namespace

void Device::sparse_linear(const device::Batch& any_batch, const Parameters& parameters, Layer layer,
                           Activation act, InputScaling scaling, const device::StepState& step,
                           const SideFeatures* side, Matrix& output) {
  const auto& batch = own<Batch>(any_batch);
  const device::StepParams& key = own<StepState>(step).params;
  const float* table = parameters.weights(layer.weight);
  const float* bias = layer.bias >= 0 ? parameters.weights(layer.bias) : nullptr;
  const std::int64_t width = output.columns();
  const std::uint64_t threshold = math::dropout_threshold(scaling.item_keep_prob);
  const std::vector<float> scale = input_scales(batch, scaling, key);
  const std::int64_t own_users = batch.own().size();
  if (side != nullptr && side->batch.users() != own_users) {
    throw std::logic_error("sparse_linear: the side input must have the same users as the batch");
  }
  const auto add_features = [&](std::int64_t u, float* row) {
    if (side == nullptr) return;
    const float* side_table = parameters.weights(side->table);
    const auto& features = own<Batch>(side->batch);
    const auto columns = features.rows().row(u);
    const float part = math::input_scale(features.totals[static_cast<std::size_t>(u)].norm);
    for (const std::int32_t column : columns) add_scaled(row, side_table + column * width, part, width);
  };
  const auto add_items = [&](std::int64_t u, float* row) {
    const auto items = scale[u] != 0.0F ? batch.rows().row(u) : std::span<const std::int32_t>{};
    const auto values = batch.rows().row_values(u);
    for (std::size_t k = 0; k < items.size(); ++k) {
      const std::int32_t item = items[k];
      if (scaling.item_keep_prob >= 1.0F ||
          math::dropout_keeps_item(key.seed, key.step, batch.user_numbers[u],
                                   static_cast<std::uint32_t>(batch.items.global(item)), threshold)) {
        add_scaled(row, table + item * width, scale[u] * value_at(values, k), width);
      }
    }
  };
  float* sums = rows_of_all_users(batch, output, workspace_->sums);
  if (batch.model_parallel().count() == 1) {
    parallel_for(threads_, own_users, [&](int, std::int64_t u) {
      float* row = sums + u * width;
      std::fill_n(row, width, 0.0F);
      add_features(u, row);
      add_items(u, row);
      if (bias != nullptr) add_bias(row, bias, act, width);
    });
    return;
  }
  parallel_for(threads_, batch.users(), [&](int, std::int64_t u) {
    std::fill_n(sums + u * width, width, 0.0F);
    add_items(u, sums + u * width);
  });
  sum_to_owners(batch, sums, output);
  parallel_for(threads_, own_users, [&](int, std::int64_t u) {
    add_features(u, output.row(u));
    if (bias != nullptr) add_bias(output.row(u), bias, act, width);
  });
}

void Device::sparse_linear_backward(const device::Batch& any_batch, Layer layer, Activation act,
                                    InputScaling scaling, const Matrix& output, Matrix& d_output,
                                    const Backward& backward) {
  const auto& batch = own<Batch>(any_batch);
  const auto& step = own<StepState>(backward.step);
  const auto& [parameters, any_step, gradients, ready, fused] = backward;
  const auto& table = parameters.layout().tensors[layer.weight];
  const TensorLayout* bias = layer.bias >= 0 ? &parameters.layout().tensors[layer.bias] : nullptr;
  const std::int64_t width = table.spec.columns;
  if (!batch.has_transpose)
    throw std::logic_error("sparse_linear_backward: the batch must have its transpose");
  if (fused != nullptr && step.params.rule.clip_norm > 0.0F) {
    throw std::logic_error("sparse_linear_backward: an update with clipping cannot be fused");
  }

  if (act != Activation::identity) {
    parallel_for(threads_, d_output.rows(), [&](int, std::int64_t u) {
      activation_backward(act, d_output.row(u), output.row(u), width);
    });
  }
  const std::vector<float> scale = input_scales(batch, scaling, step.params);
  const float* d = gather_from_owners(batch, d_output, workspace_->gathered);
  const TableGradient gradient{batch, step.params, scaling.item_keep_prob, d, scale, width};
  if (bias != nullptr) {
    column_sums(d_output, gradients.data() + bias->range.begin);
    if (ready) ready(bias->range, {});
  }
  if (fused != nullptr) return update_rows(gradient, table, step.rule(table.spec.decays), threads_, *fused);
  write_gradient(gradient, table, 64, threads_, backward);
}

void Device::side_features_backward(const SideFeatures& side, const Matrix& d_before,
                                    const Backward& backward) {
  const auto& b = own<Batch>(side.batch);
  const auto& table = backward.layout().tensors[side.table];
  if (!b.has_transpose) throw std::logic_error("side_features_backward: the batch must have its transpose");
  if (d_before.rows() != b.users())
    throw std::logic_error("side_features_backward: the gradient must have one row per user");
  const device::StepParams no_dropout;
  const std::vector<float> scale = input_scales(b, 1.0F, no_dropout);
  // grain 1: there are few columns, each with many users.
  write_gradient({b, no_dropout, 1.0F, d_before.row(0), scale, table.spec.columns}, table, 1, threads_,
                 backward);
}

}  // namespace vaecf::cpu
