#pragma once

#include <vaecf/math/loss.hpp>

#include "device/cuda/kernels/softmax_kernels.hpp"

/// Kernel of the output layer with sigmoid and the mean squared error.
namespace vaecf::cuda {

/// Replaces the logits by the gradient of the mean squared error, scaled, with zeros in the padding. One user
/// per block.
template <class T>
struct SquaredErrorOfUser {
  static constexpr int threads = 256;
  static constexpr int scratch_bytes = 0;
  LogitRows<T> rows;
  double item_weight;  // 1 / items

  template <class Group>
  VAECF_HD void operator()(Group& group, std::int64_t block, std::byte*) const {
    const RowPart<T> row = rows.part(block, 0, rows.items);
    const float scale = rows.state->scale.scale * static_cast<float>(item_weight);
    // (o - 1)^2 at the user's own items is o^2 + (1 - 2 o); the logits are saved before they are overwritten.
    const double own = group.sum(row.count, [&](std::int64_t k) {
      const float logit = to_float(row.row[rows.columns[row.begin + k]]);
      rows.positive_logits[row.begin + k] = logit;
      return static_cast<double>(1.0F - 2.0F * math::sigmoid(logit));
    });
    const double all = group.sum(row.vecs(), [&](std::int64_t e) {
      Vec8 x = rows.mask_padding(8 * e, load_vec8(row.row + 8 * e));
      float sum = 0.0F;
      for (float& value : x.at) {
        const float output = math::sigmoid(value);
        sum += output * output;
        value = scale * math::squared_error_gradient(output, output);
      }
      store_vec8(row.row + 8 * e, x);
      return static_cast<double>(sum);
    });
    group.each(1, [&](std::int64_t) { rows.nll[row.user] = item_weight * (all + own); });
    rows.write_padding(group, row);
    rows.write_positives(group, row, [&](float logit) {
      const float output = math::sigmoid(logit);
      return scale * math::squared_error_gradient(output - 1.0F, output);
    });
  }
};

}  // namespace vaecf::cuda
