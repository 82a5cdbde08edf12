#pragma once

#include <vaecf/comm/communicator.hpp>
#include <vaecf/device/device.hpp>
#include <vaecf/models/item/ease_model.hpp>
#include <vaecf/models/item/item_model.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace vaecf::models {

/// Adds X' diag(w) X without its diagonal to `matrix` and inverts it on GPUs; see device::Device::invert().
/// Returns nullopt on all ranks, with the matrix unchanged, unless every rank has a GPU with enough memory.
/// Collective.
std::optional<device::Inversion> invert_on_gpus(device::Device& device, device::SpdInverse& matrix,
                                                const device::Interactions& x, comm::Communicator& ranks,
                                                const device::SpdInverse::Progress& progress);

/// EASE (Steck, WWW 2019) and the models around the same inverse (math/linear_models.hpp) in closed form.
/// GPUs compute and invert the matrix if they have enough memory. The inverse P is kept, and scores are x B =
/// -h / diag(P) (x P), without the terms of the diagonal.
class Ease final : public EaseModel {
 public:
  /// Implements solve_ease(). The rows of the matrix are distributed over the ranks; afterwards every rank
  /// has all of P, 4 I^2 bytes. The result does not depend on the number of ranks, unless it determines
  /// whether the matrix fits into the memory of the GPUs.
  static std::unique_ptr<Ease> solve(const Interactions& train, const EaseValues& values,
                                     const run::RunContext& context, int threads);

  void set_columns(double relax, double kept_weight) override;
  void score(std::span<const std::int32_t> history, std::span<float> scores) const override;
  StoredWeights stored() const override;
  bool is_dense() const override { return true; }

 private:
  /// P of all items, in the memory in which it was inverted or gathered.
  struct Inverse {
    std::int64_t items = 0;
    std::unique_ptr<device::SpdInverse> solved;  // this rank's rows, all of them if there is one rank
    device::AlignedArray<float> gathered;        // (items, items); empty if there is one rank

    /// Moves the rows of all ranks to `gathered`. Collective.
    void gather(comm::Communicator& ranks);
    std::span<const float> row(std::int64_t i) const;
  };

  Ease(Inverse inverse, double dropout, std::vector<math::LinearColumn> columns)
      : EaseModel(dropout, std::move(columns)), inverse_(std::move(inverse)) {
    set_columns(0.0, 0.0);
  }

  Inverse inverse_;
  std::vector<float> scale_;  // -h_j / P_jj, contiguous because every user's scores read all of it
};

/// EASE restricted to neighborhoods, after Steck, "Markov Random Fields for Collaborative Filtering" (NeurIPS
/// 2019) with r = 0 and the Gram matrix not standardized. With G = X' diag(w) X, g its diagonal, S the sum of
/// w and s_i = (g_i - g_i^2 / S)^0.375, the neighbors N of item j are the K items with the largest (G_ij -
/// g_i g_j / S) / (s_i s_j), of equal ones those with the lower index. B_Nj is h_j times the solution of
/// (G_NN + diag(Lambda_N)) b = G_Nj, and 1 / P_jj = g_j + Lambda_j - G_jN b (math/linear_models.hpp).
/// K = items - 1 is EASE.
class EaseK final : public EaseModel {
 public:
  /// Implements solve_ease(). The items are distributed over the ranks, and afterwards every rank has all
  /// weights.
  static std::unique_ptr<EaseK> solve(const Interactions& train, const EaseValues& values,
                                      const run::RunContext& context, int threads);
  void score(std::span<const std::int32_t> history, std::span<float> scores) const override;
  StoredWeights stored() const override;
  /// Returns the weights of EASE or EDLAE, without the factors of the columns.
  const SparseWeights& weights() const { return weights_; }

 private:
  EaseK(SparseWeights weights, double dropout, std::vector<math::LinearColumn> columns)
      : EaseModel(dropout, std::move(columns)), weights_(std::move(weights)) {}

  SparseWeights weights_;
};

}  // namespace vaecf::models
