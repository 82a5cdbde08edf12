#include <vaecf/math/elementwise.hpp>
#include <vaecf/math/lanes.hpp>
#include <vaecf/math/philox.hpp>

#include <algorithm>

#include "cpu_backend.hpp"
#include "parallel.hpp"
#include "vector_kernels.hpp"
#include "workspace.hpp"

namespace vaecf::cpu {

using backend::Activation;

// Kernels may sum the last rows of a product in another order. Forward products of fixed rows give every user
// the same bits on any number of threads.
constexpr std::int64_t users_of_product = 32;

const void* CpuBackend::operand(const float* values, std::int64_t n, AlignedArray<std::uint16_t>& copy) {
  if (!bf16()) return values;
  copy.reserve(n);
  on_ranges(threads_, n, 1024,
            [&](int, Range part) { to_bf16(values + part.begin, copy.data() + part.begin, part.size()); });
  return copy.data();
}

const void* CpuBackend::element(const void* operand, std::int64_t index) const {
  return static_cast<const char*>(operand) + index * (bf16() ? 2 : 4);
}

void CpuBackend::linear(const backend::Activations& input, const backend::Parameters& parameters,
                        backend::Layer layer, Activation act, backend::Activations& output) {
  const CpuActivations& in = cpu(input);
  CpuActivations& out = cpu(output);
  out.set_rows(in.rows());
  const float* weights = cpu(parameters).weights(layer.weight);
  const float* bias = cpu(parameters).weights(layer.bias);
  const std::int64_t k = in.columns();
  const std::int64_t n = out.columns();
  const void* a = operand(in.row(0), in.rows() * k, workspace_->input16);
  const void* b = operand(weights, k * n, workspace_->weights16);
  on_ranges(threads_, in.rows(), users_of_product, [&](int thread, Range rows) {
    for (std::int64_t first = rows.begin; first < rows.end; first += users_of_product) {
      const std::int64_t m = std::min(users_of_product, rows.end - first);
      const ProductSpec spec{.m = m, .n = n, .k = k, .lda = k, .ldb = n, .ldc = n, .bf16 = bf16()};
      engines_[thread]->run(spec, element(a, first * k), b, out.row(first));
    }
    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
      add_bias(out.row(r), bias, act == Activation::tanh, n);
    }
  });
}

void CpuBackend::linear_backward(const backend::Activations& input, const backend::Parameters& parameters,
                                 backend::Layer layer, Activation act, const backend::Activations& output,
                                 backend::Activations& d_output, backend::Activations* d_input,
                                 backend::FloatBuffer& gradients, const backend::GradientReady& ready) {
  const CpuActivations& in = cpu(input);
  const CpuActivations& out = cpu(output);
  CpuActivations& d = cpu(d_output);
  const auto& layout = parameters.layout();
  const auto& weight = layout.tensors[layer.weight];
  const auto& bias = layout.tensors[layer.bias];
  const float* weights = cpu(parameters).weights(layer.weight);
  const std::int64_t rows = d.rows();
  const std::int64_t k = weight.spec.rows;
  const std::int64_t n = weight.spec.columns;

  if (act == Activation::tanh) {
    on_ranges(threads_, rows, 1, [&](int, Range part) {
      for (std::int64_t r = part.begin; r < part.end; ++r) tanh_backward(d.row(r), out.row(r), n);
    });
  }
  const void* x = operand(in.row(0), rows * k, workspace_->input16);
  const void* dy = operand(d.row(0), rows * n, workspace_->gradient16);
  float* d_weights = gradients.data() + weight.range.begin;
  if (rows == 0) {
    std::fill_n(d_weights, weight.range.size(), 0.0F);
  } else {
    on_ranges(threads_, k, 16, [&](int thread, Range part) {
      const ProductSpec spec{.m = part.size(),
                             .n = n,
                             .k = rows,
                             .lda = k,
                             .ldb = n,
                             .ldc = n,
                             .a_transposed = true,
                             .bf16 = bf16()};
      engines_[thread]->run(spec, element(x, part.begin), dy, d_weights + part.begin * n);
    });
  }
  if (ready) ready(weight.range, {});
  column_sums(d, gradients.data() + bias.range.begin);
  if (ready) ready(bias.range, {});

  if (d_input == nullptr) return;
  CpuActivations& d_in = cpu(*d_input);
  d_in.set_rows(rows);
  const void* w = operand(weights, k * n, workspace_->weights16);
  on_ranges(threads_, rows, 1, [&](int thread, Range part) {
    const ProductSpec spec{
        .m = part.size(), .n = k, .k = n, .lda = n, .ldb = n, .ldc = k, .b_transposed = true, .bf16 = bf16()};
    engines_[thread]->run(spec, element(dy, part.begin * n), w, d_in.row(part.begin));
  });
}

void CpuBackend::sample_latent(const backend::Batch& batch, const backend::Activations& statistics,
                               const backend::StepState& step, backend::Activations& z) {
  const backend::StepNumbers& key = cpu(step).numbers;
  const CpuBatch& b = cpu(batch);
  const CpuActivations& s = cpu(statistics);
  CpuActivations& out = cpu(z);
  out.set_rows(s.rows());
  const std::int64_t latents = out.columns();
  on_ranges(threads_, s.rows(), 1, [&](int, Range users) {
    for (std::int64_t u = users.begin; u < users.end; ++u) {
      const float* row = s.row(u);
      for (std::int64_t k = 0; k < latents; k += 4) {
        float noise[4];
        math::latent_noise_block(key.seed, key.step, b.user_numbers[u], static_cast<std::uint32_t>(k / 4),
                                 noise);
        for (std::int64_t j = k; j < std::min(k + 4, latents); ++j) {
          out.row(u)[j] = math::reparameterise(row[j], row[latents + j], noise[j - k]);
        }
      }
    }
  });
}

void CpuBackend::latent_mean(const backend::Activations& statistics, backend::Activations& z) {
  const CpuActivations& s = cpu(statistics);
  CpuActivations& out = cpu(z);
  out.set_rows(s.rows());
  for (std::int64_t u = 0; u < s.rows(); ++u) std::copy_n(s.row(u), out.columns(), out.row(u));
}

void CpuBackend::latent_backward(const backend::Batch& batch, const backend::Activations& statistics,
                                 backend::StepState& step, const backend::Activations& d_z,
                                 backend::Activations& d_statistics) {
  const backend::StepNumbers& key = cpu(step).numbers;
  const CpuBatch& b = cpu(batch);
  const CpuActivations& s = cpu(statistics);
  const CpuActivations& dz = cpu(d_z);
  CpuActivations& ds = cpu(d_statistics);
  ds.set_rows(s.rows());
  const std::int64_t latents = dz.columns();
  std::vector<double> kl(static_cast<std::size_t>(s.rows()));
  on_ranges(threads_, s.rows(), 1, [&](int, Range users) {
    const math::OneLane lane;
    for (std::int64_t u = users.begin; u < users.end; ++u) {
      const float* row = s.row(u);
      kl[u] =
          lane.sum(latents, [&](std::int64_t k) { return math::kl_term<double>(row[k], row[latents + k]); });
      for (std::int64_t k = 0; k < latents; k += 4) {
        float noise[4];
        math::latent_noise_block(key.seed, key.step, b.user_numbers[u], static_cast<std::uint32_t>(k / 4),
                                 noise);
        for (std::int64_t j = k; j < std::min(k + 4, latents); ++j) {
          const float gradient = dz.row(u)[j];
          ds.row(u)[j] = math::latent_gradient_mu(gradient, key.beta, row[j]);
          ds.row(u)[latents + j] =
              math::latent_gradient_logvar(gradient, noise[j - k], key.beta, row[latents + j]);
        }
      }
    }
  });
  for (const double value : kl) cpu(step).kl += value;
}

}  // namespace vaecf::cpu
