#pragma once

#include <vaecf/device/device.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// Reference implementation of the device operations, in fp64 and plain loops, for the contract test.
namespace vaecf::testing {

/// Dense matrix, row-major.
struct Matrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<double> values;

  Matrix() = default;
  Matrix(std::int64_t r, std::int64_t c) : rows(r), columns(c), values(static_cast<std::size_t>(r * c)) {}
  Matrix(std::int64_t r, std::int64_t c, std::span<const float> v)
      : rows(r), columns(c), values(v.begin(), v.end()) {}

  double& at(std::int64_t r, std::int64_t c) { return values[static_cast<std::size_t>(r * columns + c)]; }
  double at(std::int64_t r, std::int64_t c) const {
    return values[static_cast<std::size_t>(r * columns + c)];
  }
  std::vector<float> floats() const { return {values.begin(), values.end()}; }
};

/// Key of the random numbers of a step.
struct StepKey {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
};

/// A batch on the host.
struct HostBatch {
  Csr rows;
  std::vector<std::uint32_t> users;  ///< user indices, which key the random numbers
  std::int64_t items = 0;

  std::int64_t size() const { return rows.rows(); }
  bool holds(std::int64_t row, std::int32_t item) const;
  double sum(std::int64_t row) const;  ///< of the values of the row
};

namespace reference {

/// Returns S (B, I): the dropout scale x_ui / |x_u| at the user's items and 0 elsewhere. Rows whose history
/// is dropped are 0.
Matrix scaled_input(const HostBatch& batch, device::InputScaling scaling, StepKey key);

Matrix linear(const Matrix& input, const Matrix& weight, const Matrix& bias, device::Activation act);
Matrix sparse_linear(const HostBatch& batch, const Matrix& weight, const Matrix& bias, device::Activation act,
                     device::InputScaling scaling, StepKey key);
/// Returns sparse_linear with an additional side input, whose table is (side.items, outputs).
Matrix sparse_linear(const HostBatch& batch, const Matrix& weight, const Matrix& bias, device::Activation act,
                     device::InputScaling scaling, StepKey key, const HostBatch& side, const Matrix& table);
Matrix side_features_backward(const HostBatch& side, const Matrix& d_before);

/// Returns eps (B, L).
Matrix noise(const HostBatch& batch, std::int64_t latents, StepKey key);
Matrix sample_latent(const HostBatch& batch, const Matrix& statistics, StepKey key);

struct LayerGradient {
  double nll = 0.0;  ///< output layers only
  Matrix d_before;   ///< gradient before the activation; dense layers only
  Matrix d_input;
  Matrix d_weight;
  Matrix d_bias;  // (1, outputs)
};

LayerGradient softmax_layer(const Matrix& hidden, const HostBatch& batch, const Matrix& weight,
                            const Matrix& bias);
/// Returns loss and gradients of sigmoid outputs with the mean squared error, for an x of 0 or 1.
LayerGradient squared_layer(const Matrix& hidden, const HostBatch& batch, const Matrix& weight,
                            const Matrix& bias);
LayerGradient linear_backward(const Matrix& input, const Matrix& weight, device::Activation act,
                              const Matrix& output, const Matrix& d_output);
/// Returns the gradients of sparse_linear; d_input is empty.
LayerGradient sparse_linear_backward(const HostBatch& batch, device::InputScaling scaling, StepKey key,
                                     device::Activation act, const Matrix& output, const Matrix& d_output);

struct LatentGradient {
  double kl = 0.0;
  Matrix d_statistics;
};
LatentGradient latent_backward(const HostBatch& batch, const Matrix& statistics, StepKey key, double beta,
                               const Matrix& d_z);

/// Returns the gradients with the composite prior, from its density itself. `kl` and `weighted_kl` are sums
/// over users; a user's weight is beta + gamma times the sum of the values.
struct CompositeGradient {
  double kl = 0.0;
  double weighted_kl = 0.0;
  Matrix d_statistics;
};
CompositeGradient composite_latent_backward(const HostBatch& batch, const Matrix& statistics,
                                            const Matrix& old_statistics, const double (&weights)[3],
                                            StepKey key, double beta, double gamma, const Matrix& d_z);

/// Returns LN(swish(s)) gain + offset.
Matrix swish_norm(const Matrix& s, const Matrix& gain, const Matrix& offset);
struct NormGradient {
  Matrix d_s;
  Matrix d_gain;  // (1, outputs)
  Matrix d_offset;
};
NormGradient swish_norm_backward(const Matrix& s, const Matrix& gain, const Matrix& d_h);

/// Returns `weight` with rows divided by their L2 norms.
Matrix normalize_rows(const Matrix& weight);
struct CosineLoss {
  double loss = 0.0;
  Matrix d_weight;
};
/// Returns the loss of ELSA, sum of 1 - cos(x, x A A' - x) over the users with items, and its gradient by
/// `weight` (I, r), from the users' predictions (B, I).
CosineLoss cosine_loss(const HostBatch& batch, const Matrix& weight);

/// Applies the optimizer update of one element in fp64.
void update(const device::UpdateRule& rule, double gradient, double& m, double& v, double& w);

/// Returns the rank of each target: the number of items that are not in the user's row and have a greater
/// score, or the same score and a lower index; or the number of items if it is in the row. NaN counts against
/// the target.
std::vector<std::int32_t> compute_target_ranks(const Matrix& scores, const HostBatch& batch, CsrView targets);

/// Returns the items that are not in the user's row, best first, ties by lower item, NaN as minus infinity.
std::vector<std::int32_t> ranking(const Matrix& scores, const HostBatch& batch, std::int64_t row);

}  // namespace reference
}  // namespace vaecf::testing
