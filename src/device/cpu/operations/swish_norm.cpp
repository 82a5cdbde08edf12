#include <vaecf/math/recvae.hpp>
#include <vaecf/math/thread_group.hpp>

#include <algorithm>
#include <vector>

#include "device/cpu/device.hpp"
#include "device/cpu/kernels/vector_kernels.hpp"
#include "device/cpu/parallel.hpp"

namespace vaecf::cpu {
namespace {

/// Calls use(row, swish(s), sigmoid(s), normalization of swish(s)) for each row of `s`, which it may change.
template <class Use>
void for_normalized_rows(int threads, Matrix& s, Use&& use) {
  const std::int64_t n = s.columns();
  parallel_for_static(threads, s.rows(), 1, [&](int, Range rows) {
    std::vector<float> sigmoid(static_cast<std::size_t>(n));
    std::vector<float> y(static_cast<std::size_t>(n));
    math::SingleThread thread_group;
    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
      const float* row = s.row(r);
      sigmoids(row, sigmoid.data(), n);
      for (std::int64_t j = 0; j < n; ++j) y[j] = row[j] * sigmoid[j];
      use(r, y.data(), sigmoid.data(),
          math::row_norm<float>(thread_group, n, [&](std::int64_t j) { return y[j]; }));
    }
  });
}

/// Computes sum += x or, with `first`, sum = x.
void add_or_copy(bool first, float* sum, const float* x, std::int64_t n) {
  if (first) {
    std::copy_n(x, n, sum);
  } else {
    add(sum, x, n);
  }
}

}  // namespace

void Device::swish_norm(Matrix& s, const Parameters& parameters, Norm norm, bool first, Matrix& sum,
                        Matrix& h) {
  const std::int64_t n = s.columns();
  const float* gain = parameters.weights(norm.gain);
  const float* offset = parameters.weights(norm.offset);
  sum.set_rows(s.rows());
  h.set_rows(s.rows());
  if (!first) parallel_for(threads_, s.rows(), [&](int, std::int64_t r) { add(s.row(r), sum.row(r), n); });
  for_normalized_rows(threads_, s,
                      [&](std::int64_t r, const float* y, const float*, math::RowNorm<float> normalized) {
                        float* out = h.row(r);
                        for (std::int64_t j = 0; j < n; ++j) out[j] = normalized(y[j]) * gain[j] + offset[j];
                        add_or_copy(first, sum.row(r), out, n);
                      });
}

void Device::swish_norm_backward(Matrix& s, Norm norm, bool first, Matrix& d_h, Matrix& sum,
                                 const Backward& backward) {
  const auto& [parameters, step, gradients, ready, fused] = backward;
  const Range gain = parameters.layout().tensors[norm.gain].range;
  const Range offset = parameters.layout().tensors[norm.offset].range;
  const float* gains = parameters.weights(norm.gain);
  const std::int64_t n = s.columns();
  sum.set_rows(s.rows());
  column_sums(d_h, gradients.data() + offset.begin);
  for_normalized_rows(
      threads_, s,
      [&](std::int64_t r, const float* y, const float* sigmoid, math::RowNorm<float> normalized) {
        float* s_row = s.row(r);
        float* d = d_h.row(r);
        const auto x = [&](std::int64_t j) { return normalized(y[j]); };
        math::SingleThread thread_group;
        const auto gradient = math::row_norm_gradient(
            thread_group, n, normalized, [&](std::int64_t j) { return d[j] * gains[j]; }, x);
        for (std::int64_t j = 0; j < n; ++j) {
          const float d_s = gradient(d[j] * gains[j], x(j)) * math::swish_derivative(s_row[j], sigmoid[j]);
          s_row[j] = d[j] * x(j);  // its column sums are the gradient of the gain
          d[j] = d_s;
        }
        add_or_copy(first, sum.row(r), d, n);
      });
  column_sums(s, gradients.data() + gain.begin);
  if (!ready) return;
  ready(gain, {});
  ready(offset, {});
}

}  // namespace vaecf::cpu
