#pragma once

#include <vaecf/device/cpu/spd_inverse.hpp>
#include <vaecf/train/train.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "train/item_models/interactions.hpp"
#include "train/item_models/item_model.hpp"

namespace vaecf::train {

/// EASE (Steck, WWW 2019) and its denoising form EDLAE (Steck, NeurIPS 2020) in closed form. GPUs compute
/// and invert the matrix if they have enough memory; scores are computed on the CPU. P = (X'X + l2 I +
/// diag(X'X) p / (1 - p))^-1 with p = `dropout`; B_ij = -P_ij / P_jj, and B_jj = 0.
class Ease final : public ItemModel {
 public:
  /// Solves with `threads` threads per rank. The rows of the matrix are distributed over the ranks;
  /// afterwards every rank has all of P, 4 I^2 bytes. The result does not depend on the number of ranks,
  /// unless it determines whether the matrix fits into the memory of the GPUs. Collective. Throws InputError
  /// on all ranks if the matrix is not positive definite.
  Ease(const Interactions& train, double l2, double dropout, const RunContext& context, int threads);
  /// Makes a model with a known P (items, items) and its diagonal.
  Ease(cpu::FloatBuffer inverse, std::vector<double> diagonal);
  void score(std::span<const std::int32_t> history, std::span<float> scores) const override;
  StoredWeights stored() const override;

 private:
  /// Moves the rows of all ranks to inverse_. Collective.
  void gather_inverse(comm::Communicator& ranks);
  /// Returns row i of P.
  std::span<const float> row(std::int64_t i) const;

  std::int64_t items_;
  std::unique_ptr<cpu::SpdInverse> solved_;  // this rank's rows, all of them if there is one rank
  cpu::FloatBuffer inverse_;                 // (items, items); empty if there is one rank
  std::vector<float> diagonal_;              // P_jj, contiguous because every user's scores read all of it
  std::vector<double> stored_diagonal_;      // the same, as in a checkpoint
};

}  // namespace vaecf::train
