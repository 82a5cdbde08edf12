#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/device/cpu/spd_inverse.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/train/evaluator.hpp>
#include <vaecf/train/train.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace vaecf::train {

/// The complete 0/1 train matrix X (users, items), by users and by items.
struct Interactions {
  Csr users;  ///< items of each user
  Csr items;  ///< users of each item
};

/// Reads /train. Every rank reads all rows.
Interactions read_interactions(const io::DatasetFile& dataset, const RunContext& context);
/// Returns `users` and its transpose for `items` items.
Interactions make_interactions(Csr users, std::int64_t items);

/// A model that scores item j for a user by the sum of weights B_ij over the user's items i.
class ItemModel {
 public:
  virtual ~ItemModel() = default;
  /// Writes the scores of all items for a user with the items `history`; those of the history itself are
  /// unspecified. Thread-safe.
  virtual void score(std::span<const std::int32_t> history, std::span<float> scores) const = 0;
};

/// EASE (Steck, WWW 2019) and its denoising form EDLAE (Steck, NeurIPS 2020) in closed form, on the CPU.
/// P = (X'X + l2 I + diag(X'X) p / (1 - p))^-1 with p = `dropout`; B_ij = -P_ij / P_jj, and B_jj = 0.
class Ease final : public ItemModel {
 public:
  /// Solves with `threads` threads per rank. The rows of the matrix are distributed over the ranks;
  /// afterwards every rank has all of P, 4 I^2 bytes. The result does not depend on the number of ranks.
  /// Collective. Throws InputError on all ranks if the matrix is not positive definite.
  Ease(const Interactions& train, double l2, double dropout, const RunContext& context, int threads);
  void score(std::span<const std::int32_t> history, std::span<float> scores) const override;

 private:
  /// Moves the rows of all ranks to inverse_. Collective.
  void gather_inverse(comm::Communicator& ranks);
  std::span<const float> row(std::int64_t i) const;

  std::int64_t items_;
  std::unique_ptr<cpu::SpdInverse> solved_;  // this rank's rows, all of them if there is one rank
  cpu::FloatBuffer inverse_;                 // (items, items); empty if there is one rank
  std::vector<float> diagonal_;              // P_jj, contiguous because every user's scores read all of it
};

/// Item-based nearest neighbors. With G = X'X, the similarity of a source item i and a target j is
/// G_ij / (G_ii^a G_jj^(1-a) + shrink + 1e-6) with a = `source_power`; a = 0.5 is the cosine. Only the
/// largest similarities of each target, or of each source, are used; of equal ones those with the lower
/// index.
class ItemKnn final : public ItemModel {
 public:
  /// Computes the neighbors with `threads` threads; each rank computes a part. Collective.
  ItemKnn(const Interactions& train, const model::ItemKnnOptions& options, const RunContext& context,
          int threads);
  void score(std::span<const std::int32_t> history, std::span<float> scores) const override;

 private:
  std::vector<std::vector<std::pair<std::int32_t, float>>> targets_;  // (target, similarity) of each source
};

/// Evaluates `model` on this rank's users with `threads` threads: targets are ranked among all items except
/// those of the fold-in, ties by ascending item. Collective.
EvaluationResult evaluate(Evaluator& evaluator, const ItemModel& model, std::int64_t items, int threads);

/// Computes the baselines that `options.validation.baselines` selects on the users of `evaluator`. The l2 and
/// dropout of EASE are chosen on the validation users, if there are several values and such users; otherwise
/// the first ones are used. Collective.
std::vector<Baseline> evaluate_baselines(const TrainingConfig& options, const io::DatasetFile& dataset,
                                         Evaluator& evaluator, const RunContext& context);

}  // namespace vaecf::train
