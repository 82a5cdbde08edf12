#pragma once

#include <vaecf/device/device.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// What the operations of a device mean, in fp64 and plain loops: the yardstick of the contract test.
namespace vaecf::testing {

/// Dense, row-major.
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

/// What the randomness of a step is keyed by.
struct StepKey {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
};

/// A batch as the host knows it.
struct HostBatch {
  Csr rows;
  std::vector<std::uint32_t> users;  ///< user numbers: what the randomness is keyed by
  std::int64_t items = 0;

  std::int64_t size() const { return rows.rows(); }
  bool holds(std::int64_t row, std::int32_t item) const;
};

namespace reference {

/// S (B, I): dropout / sqrt(n_u) at the user's items, 0 elsewhere, and everywhere where the history is
/// dropped.
Matrix scaled_input(const HostBatch& batch, device::Keep keep, StepKey key);

Matrix linear(const Matrix& input, const Matrix& weight, const Matrix& bias, device::Activation act);
Matrix encode_input(const HostBatch& batch, const Matrix& weight, const Matrix& bias, device::Activation act,
                    device::Keep keep, StepKey key);
/// The same with a side input, whose table is (side.items, outputs).
Matrix encode_input(const HostBatch& batch, const Matrix& weight, const Matrix& bias, device::Activation act,
                    device::Keep keep, StepKey key, const HostBatch& side, const Matrix& table);
Matrix side_gradient(const HostBatch& side, const Matrix& d_before);

/// eps (B, L).
Matrix noise(const HostBatch& batch, std::int64_t latents, StepKey key);
Matrix sample_latent(const HostBatch& batch, const Matrix& statistics, StepKey key);

struct LayerGradient {
  double nll = 0.0;  ///< softmax layer only
  Matrix d_before;   ///< gradient before the activation; dense layers only
  Matrix d_input;
  Matrix d_weight;
  Matrix d_bias;  // (1, outputs)
};

LayerGradient softmax_layer(const Matrix& hidden, const HostBatch& batch, const Matrix& weight,
                            const Matrix& bias);
LayerGradient linear_backward(const Matrix& input, const Matrix& weight, device::Activation act,
                              const Matrix& output, const Matrix& d_output);
/// The same with the sparse input; d_input stays empty.
LayerGradient input_gradient(const HostBatch& batch, device::Keep keep, StepKey key, device::Activation act,
                             const Matrix& output, const Matrix& d_output);

struct LatentGradient {
  double kl = 0.0;
  Matrix d_statistics;
};
LatentGradient latent_backward(const HostBatch& batch, const Matrix& statistics, StepKey key, double beta,
                               const Matrix& d_z);

/// One element's optimiser step in fp64.
void update(const device::UpdateRule& rule, double gradient, double& m, double& v, double& w);

/// Ranks by sorting: position of each target among the items that the user does not hold; the number of items
/// where the user holds it.
std::vector<std::int32_t> rank_held_out(const Matrix& scores, const HostBatch& batch, CsrView targets);

/// Unmasked items of one user, best first, ties to the lower item.
std::vector<std::int32_t> ranking(const Matrix& scores, const HostBatch& batch, std::int64_t row);

}  // namespace reference
}  // namespace vaecf::testing
