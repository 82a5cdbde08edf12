#pragma once

#include <vaecf/comm/communicator.hpp>
#include <vaecf/device/device.hpp>
#include <vaecf/models/item/ease_model.hpp>

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

}  // namespace vaecf::models
