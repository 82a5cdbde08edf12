#include <vaecf/math/composite_prior.hpp>
#include <vaecf/math/elementwise.hpp>
#include <vaecf/math/random.hpp>

#include "device/cpu/device.hpp"
#include "device/cpu/kernels/gemm.hpp"
#include "device/cpu/kernels/vector_kernels.hpp"
#include "device/cpu/parallel.hpp"

namespace vaecf::cpu {

// Kernels may sum the last rows of a product in a different order. Forward products of a fixed number of rows
// give every user the same bits for any number of threads.
constexpr std::int64_t users_of_product = 32;

const void* Device::operand(const float* values, std::int64_t n, AlignedArray<std::uint16_t>& copy) {
  if (!bf16()) return values;
  copy.reserve(n);
  parallel_for_static(threads_, n, 1024, [&](int, Range part) {
    to_bf16(values + part.begin, copy.data() + part.begin, part.size());
  });
  return copy.data();
}

const void* Device::element(const void* operand, std::int64_t index) const {
  return static_cast<const char*>(operand) + index * (bf16() ? 2 : 4);
}

void Device::linear(const Matrix& input, const Parameters& parameters, Layer layer, Activation act,
                    Matrix& output) {
  output.set_rows(input.rows());
  const float* weights = parameters.weights(layer.weight);
  const float* bias = parameters.weights(layer.bias);
  const std::int64_t k = input.columns();
  const std::int64_t n = output.columns();
  const void* a = operand(input.row(0), input.rows() * k, workspace_->input16);
  const void* b = operand(weights, k * n, workspace_->weights16);
  parallel_for_static(threads_, input.rows(), users_of_product, [&](int thread, Range rows) {
    for (std::int64_t first = rows.begin; first < rows.end; first += users_of_product) {
      const std::int64_t m = std::min(users_of_product, rows.end - first);
      const MatmulSpec spec{.m = m, .n = n, .k = k, .operands = dtype()};
      engines_[thread]->run(spec, element(a, first * k), b, output.row(first));
    }
    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
      add_bias(output.row(r), bias, act, n);
    }
  });
}

void Device::linear_backward(const Matrix& input, Layer layer, Activation act, const Matrix& output,
                             Matrix& d_output, Matrix* d_input, const Matrix* added_to_input,
                             const Backward& backward) {
  const auto& [parameters, step, gradients, ready, fused] = backward;
  const auto& weight = parameters.layout().tensors[layer.weight];
  const auto& bias = parameters.layout().tensors[layer.bias];
  const float* weights = parameters.weights(layer.weight);
  const std::int64_t rows = d_output.rows();
  const std::int64_t k = weight.spec.rows;
  const std::int64_t n = weight.spec.columns;

  if (act != Activation::identity) {
    parallel_for(threads_, rows,
                 [&](int, std::int64_t r) { activation_backward(act, d_output.row(r), output.row(r), n); });
  }
  const void* x = operand(input.row(0), rows * k, workspace_->input16);
  const void* dy = operand(d_output.row(0), rows * n, workspace_->gradient16);
  float* d_weights = gradients.data() + weight.range.begin;
  if (rows == 0) {
    std::fill_n(d_weights, weight.range.size(), 0.0F);
  } else {
    parallel_for_static(threads_, k, 16, [&](int thread, Range part) {
      const MatmulSpec spec{
          .m = part.size(), .n = n, .k = rows, .a_transposed = true, .lda = k, .operands = dtype()};
      engines_[thread]->run(spec, element(x, part.begin), dy, d_weights + part.begin * n);
    });
  }
  if (ready) ready(weight.range, {});
  column_sums(d_output, gradients.data() + bias.range.begin);
  if (ready) ready(bias.range, {});

  if (d_input == nullptr) return;
  Matrix& d_in = *d_input;
  d_in.set_rows(rows);
  const void* w = operand(weights, k * n, workspace_->weights16);
  parallel_for_static(threads_, rows, 1, [&](int thread, Range part) {
    const bool adds = added_to_input != nullptr;
    if (adds) std::copy_n(added_to_input->row(part.begin), part.size() * k, d_in.row(part.begin));
    const MatmulSpec spec{
        .m = part.size(), .n = k, .k = n, .b_transposed = true, .accumulate = adds, .operands = dtype()};
    engines_[thread]->run(spec, element(dy, part.begin * n), w, d_in.row(part.begin));
  });
}

/// Calls use(j, noise) for each latent dimension of a user, with the same noise in forward and backward pass.
template <class Use>
static void for_noise(const device::StepParams& key, std::uint32_t user, std::int64_t latents, Use&& use) {
  for (std::int64_t k = 0; k < latents; k += 4) {
    float noise[4];
    math::latent_noise_block(key.seed, key.step, user, static_cast<std::uint32_t>(k / 4), noise);
    for (std::int64_t j = k; j < std::min(k + 4, latents); ++j) use(j, noise[j - k]);
  }
}

void Device::sample_latent(const device::Batch& any_batch, const Matrix& statistics,
                           const device::StepState& step, Matrix& z) {
  const auto& batch = own<Batch>(any_batch);
  const device::StepParams& key = own<StepState>(step).params;
  z.set_rows(statistics.rows());
  const std::int64_t latents = z.columns();
  const std::int64_t first = batch.own().begin;
  parallel_for(threads_, statistics.rows(), [&](int, std::int64_t u) {
    const float* row = statistics.row(u);
    for_noise(key, batch.user_numbers[first + u], latents, [&](std::int64_t j, float noise) {
      z.row(u)[j] = math::reparameterize(row[j], row[latents + j], noise);
    });
  });
}

void Device::latent_mean(const Matrix& statistics, Matrix& z) {
  z.set_rows(statistics.rows());
  for (std::int64_t u = 0; u < statistics.rows(); ++u) std::copy_n(statistics.row(u), z.columns(), z.row(u));
}

/// Calls use(u, user, mu, logvar, d_mu, d_logvar) for each own user u, in the batch `user`, with the rows of
/// its statistics and of their gradient, and returns the results, KL terms.
template <class Use>
static std::vector<double> for_latents(int threads, const Batch& batch, const Matrix& statistics,
                                       Matrix& d_statistics, const Use& use) {
  d_statistics.set_rows(statistics.rows());
  const std::int64_t latents = statistics.columns() / 2;
  std::vector<double> kl(static_cast<std::size_t>(statistics.rows()));
  parallel_for(threads, statistics.rows(), [&](int, std::int64_t u) {
    const float* row = statistics.row(u);
    float* d = d_statistics.row(u);
    kl[u] = use(u, batch.own().begin + u, row, row + latents, d, d + latents);
  });
  return kl;
}

void Device::latent_backward(const device::Batch& any_batch, const Matrix& statistics, const Matrix& d_z,
                             Matrix& d_statistics, device::StepState& any_step) {
  const auto& batch = own<Batch>(any_batch);
  auto& step = own<StepState>(any_step);
  const device::StepParams& key = step.params;
  const auto backward = [&](std::int64_t u, std::int64_t user, const float* mu, const float* logvar,
                            float* d_mu, float* d_logvar) {
    for_noise(key, batch.user_numbers[user], d_z.columns(), [&](std::int64_t j, float noise) {
      const float gradient = d_z.row(u)[j];
      d_mu[j] = math::latent_gradient_mu(gradient, key.beta, mu[j]);
      d_logvar[j] = math::latent_gradient_logvar(gradient, noise, key.beta, logvar[j]);
    });
    return math::SingleThread().sum(d_z.columns(),
                                    [&](std::int64_t k) { return math::kl_term<double>(mu[k], logvar[k]); });
  };
  for (const double kl : for_latents(threads_, batch, statistics, d_statistics, backward)) step.kl += kl;
}

void Device::composite_latent_backward(const device::Batch& any_batch, const Matrix& statistics,
                                       const Matrix& old_statistics, const math::CompositePrior& prior,
                                       float gamma, const Matrix& d_z, Matrix& d_statistics,
                                       device::StepState& any_step) {
  const auto& batch = own<Batch>(any_batch);
  auto& step = own<StepState>(any_step);
  const device::StepParams& key = step.params;
  const std::int64_t latents = d_z.columns();
  const auto backward = [&](std::int64_t u, std::int64_t user, const float* mu, const float* logvar,
                            float* d_mu, float* d_logvar) {
    const float* old = old_statistics.row(u);
    const float weight = key.beta + gamma * batch.totals[user].sum;
    double kl = 0.0;
    for_noise(key, batch.user_numbers[user], latents, [&](std::int64_t j, float noise) {
      const auto term = math::composite_term(prior, mu[j], logvar[j], noise, old[j], old[latents + j]);
      kl += static_cast<double>(term.kl);
      d_mu[j] = d_z.row(u)[j] + weight * term.d_z;
      d_logvar[j] = math::composite_gradient_logvar(d_mu[j], noise, weight, logvar[j]);
    });
    return kl;
  };
  const std::vector<double> kl = for_latents(threads_, batch, statistics, d_statistics, backward);
  for (std::size_t u = 0; u < kl.size(); ++u) {
    const float items = batch.totals[static_cast<std::size_t>(batch.own().begin) + u].sum;
    step.kl += kl[u];
    step.weighted_kl += static_cast<double>(gamma) * static_cast<double>(items) * kl[u];
  }
}

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
