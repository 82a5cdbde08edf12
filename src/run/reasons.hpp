// Reasons for recommended items: the contributions of a user's items to their scores.
#pragma once

#include <vaecf/checkpoint/checkpoint_reader.hpp>
#include <vaecf/models/model.hpp>
#include <vaecf/run/recommender.hpp>
#include <vaecf/run/run.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace vaecf::run {

/// The contributions of the items of some users to the scores of the k items that are listed for each user.
struct Contributions {
  /// (k, items of the user) for one user after the other; NaN where a contribution is not computed.
  std::vector<float> values;
  /// The magnitude to which rounding errors of each user's scores are relative, besides the sum of the
  /// absolute contributions. Empty: the contributions are approximate, and do not add up to the score.
  std::vector<double> scales;
};

/// Computes contributions with one model.
class Reasons {
 public:
  virtual ~Reasons() = default;
  /// Returns the contributions of the items `seen`, of which networks leave out those in `last`; see
  /// Recommender::explain(). `features` has as many rows as `seen`; `listed` (users, k) contains -1 where no
  /// item is listed. For a model that a model-parallel group shares, collective there, with the same
  /// arguments on all ranks.
  virtual Contributions contributions(CsrView seen, CsrView last, CsrView features,
                                      std::span<const std::int32_t> listed, std::int64_t k) = 0;
};

/// A model, and the reasons of its scores.
struct ExplainedModel {
  std::unique_ptr<models::Scorer> scorer;
  std::unique_ptr<Reasons> reasons;
};

/// Reads the model of `checkpoint`, of any type, for batches of up to `max_users` users, and what its reasons
/// need in host memory: the weights between items, ELSA's table, or the output table of a network. For a user
/// x, whose values are 1 unless `seen` has values, the contribution of item i to the score of item j is
/// - of models with weights B between items: x_i B_ij;
/// - of ELSA: x_i a_i a_j / |x|, also for i = j;
/// - of a network: the score with all of the user's items and features minus the score without item i. The
///   values of the other items stay as they are; only the model divides the row by its norm. These do not add
///   up to the score.
/// `reader` reads `checkpoint`, on a single rank. The device of `context` must compute in fp32.
ExplainedModel load_explained(checkpoint::CheckpointReader& reader, const io::CheckpointFile& checkpoint,
                              const config::TrainingConfig& options, const models::InputDims& inputs,
                              const Context& context, std::int64_t max_users);

/// Throws std::logic_error unless the contributions to the score of `item` add up to `score`, within 1e-5 of
/// the sum of their absolute values or, if that is larger, of `scale`.
void require_sum(std::span<const float> contributions, std::int32_t item, float score, double scale);

/// Writes the largest of the contributions of the items `history`, largest first; the lower item wins ties.
/// Unused positions have item -1 and contribution NaN.
void select_reasons(std::span<const std::int32_t> history, std::span<const float> contributions,
                    std::span<std::int32_t> because, std::span<float> largest);

}  // namespace vaecf::run
