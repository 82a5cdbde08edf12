#pragma once

#include <vaecf/base/enum_names.hpp>
#include <vaecf/base/views.hpp>
#include <vaecf/math/metrics.hpp>
#include <vaecf/math/ranking.hpp>

#include <any>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <typeindex>
#include <utility>
#include <vector>

namespace vaecf::models {

/// Calls MODEL(NAME) for each model. The folder of a model defines NAME_kind(), which describes it
/// (models/kind.hpp).
#define VAECF_MODELS(MODEL) \
  MODEL(mult_vae)           \
  MODEL(mult_dae)           \
  MODEL(recvae)             \
  MODEL(ease)               \
  MODEL(item_knn)           \
  MODEL(elsa)               \
  MODEL(autoencoder)

#define VAECF_VALUE(name) name,
enum class ModelType { VAECF_MODELS(VAECF_VALUE) };
#undef VAECF_VALUE

/// Maximum width of a layer. One wider layer would need gigabytes, so larger values are treated as typing
/// errors.
inline constexpr std::int64_t max_layer_width = 1 << 20;

/// Use of users' features as input; automatic: if the dataset has features.
enum class FeaturesInput { automatic, off };

/// The low-rank term of the weights between items of EASE and item-kNN (models/linear/low_rank.hpp). All
/// combinations of the lists are tried with the best solution of the keys of the model.
struct LowRankOptions {
  std::vector<std::int64_t> factors = {0};  ///< width of the basis; 0: no term
  std::vector<double> weight = {0.8};       ///< alpha; above 0
  std::vector<double> power = {0.0};        ///< beta, of the numbers of users
  std::int64_t iterations = 8;
  std::int64_t keep = 0;  ///< weights of each target that remain of the sum with sparse weights
};

/// Architecture of the network, with I items and tanh between layers. mult_vae: I -> hidden -> 2 x latent, z,
/// latent -> reversed hidden -> I. mult_dae: I -> hidden -> latent (tanh) -> reversed hidden -> I, without
/// sampling and KL term. autoencoder: the layers of mult_dae, with the activation and loss of `autoencoder`,
/// on the binary rows themselves, without normalization and dropout. recvae: see RecVae.
struct ModelOptions {
  ModelType type = ModelType::mult_vae;
  std::vector<std::int64_t> hidden = {600};  ///< widths of the encoder; may be empty
  std::int64_t latent = 200;
  double dropout = 0.5;  ///< fraction of input items dropped, after normalization
  /// Fraction of users whose items are all dropped in a step. `dropout` applies to the other users.
  double history_dropout = 0.0;
  FeaturesInput features = FeaturesInput::automatic;
  LowRankOptions low_rank = {};
  std::map<std::type_index, std::any> own = {};  ///< the values of the keys model.NAME, by own_options()
};

/// Returns the values of the keys model.NAME. Their type T belongs to the folder of the model.
template <class T>
T& own_options(ModelOptions& options) {
  std::any& own = options.own[typeid(T)];
  if (!own.has_value()) own = T{};
  return std::any_cast<T&>(own);
}
template <class T>
const T& own_options(const ModelOptions& options) {
  static const T defaults;
  const auto found = options.own.find(typeid(T));
  return found == options.own.end() ? defaults : std::any_cast<const T&>(found->second);
}

/// Users in host memory. Row u of each matrix belongs to user first_user + u of their set.
struct UserData {
  CsrView items;     ///< interactions of each user
  CsrView features;  ///< features of the same users; unused by a model without features
  CsrView targets;   ///< held-out items; may be empty if nothing is evaluated
  std::int64_t first_user = 0;
};

/// A set of users stored on the model's device. The memory that their UserData refers to must outlive this
/// object.
class LoadedUsers {
 public:
  virtual ~LoadedUsers() = default;
};

/// Selects whether a user's interactions are part of the input; features always are. A user's items are
/// excluded from rankings and recommendations in both cases.
enum class History { items, none };

/// A model as used by validation, test and recommend, neural or not: it scores items for users. LoadedUsers
/// that are passed to a scorer must have been made by a scorer of the same class.
class Scorer {
 public:
  virtual ~Scorer() = default;
  virtual std::int64_t items() const = 0;
  /// Number of feature columns that the model takes as input; 0: none.
  virtual std::int64_t features() const = 0;

  /// Returns the number of models that rank_targets() and top_k() compute the results of, one after the
  /// other.
  virtual std::int64_t variants() const { return 1; }

  /// Stores `users` on the model's device. The memory that `users` refers to must outlive the result.
  virtual std::unique_ptr<LoadedUsers> load_users(const UserData& users) = 0;
  /// Ranks each user's targets among all items that the user does not have. Returns the ranks, from 0,
  /// (variants, targets of all users); that of a target which the user has is the number of items. Calls
  /// `progressed` after every batch, with the number of users so far. Throws InputError if features are
  /// missing.
  virtual std::vector<std::int32_t> rank_targets(
      LoadedUsers& users, History history, const std::function<void(std::int64_t users)>& progressed) = 0;
  /// Writes the `k` best items of users `rows` and their scores, (variants, rows, k) each, best first; the
  /// lower item wins ties. Excludes the items that a user already has, unless `keep_seen` is set. If fewer
  /// than k items are left, the remaining entries are item -1 and score -infinity. `rows` must not exceed
  /// max_users().
  virtual void top_k(LoadedUsers& users, Range rows, History history, bool keep_seen, int k,
                     std::span<std::int32_t> items, std::span<float> scores) = 0;
  /// Calls take(row, item, score) for the items of each of the users `rows`, in the order of top_k(), until
  /// it returns false or there are no more; `first` items are enough for most users. Several threads call it,
  /// with a user each. Returns false, having done nothing, if the scorer has top_k() only.
  using Take = std::function<bool(std::int64_t row, std::int32_t item, float score)>;
  virtual bool for_each_ranked(LoadedUsers& /*users*/, Range /*rows*/, bool /*keep_seen*/,
                               std::int64_t /*first*/, const Take& /*take*/) {
    return false;
  }
  /// Returns the maximum number of users per batch.
  virtual std::int64_t max_users() const = 0;
  /// Returns whether a model-parallel group shares the items of the model. rank_targets() and top_k() are
  /// then collective in the model-parallel group, with the same users, and each rank computes the results of
  /// its own_users(); those of the others stay as they are (ranks: 0).
  virtual bool divides_items() const { return false; }
  /// Returns the users of a batch of `users` whose results this rank computes.
  virtual Range own_users(std::int64_t users) const { return {0, users}; }
  /// Gives every item i with allowed_items[i] = 0 the score -infinity until the next call; `allowed_items`
  /// has one entry per item, or none: then no item is excluded.
  virtual void restrict_to(std::span<const std::uint8_t> allowed_items) = 0;
  /// Returns the number of elements of item_vectors() and user_vectors(), whose inner product is the score of
  /// the item for the user, or what the score increases with; 0: the model has no such vectors.
  virtual std::int64_t vector_width() { return 0; }
  /// Writes the vectors of `items`, (items, vector_width()), while no item is excluded.
  virtual void item_vectors(Range /*items*/, std::span<float> /*vectors*/) {}
  /// Writes the vectors of users `rows`, (rows, vector_width()). `rows` must not exceed max_users().
  virtual void user_vectors(LoadedUsers& /*users*/, Range /*rows*/, std::span<float> /*vectors*/) {}
  /// Writes the similarity of every item to each of some, (items, items()); -infinity for none. That of an
  /// item to itself has any value. Not for a model that a model-parallel group shares.
  virtual void similarities(std::span<const std::int32_t> items, std::span<float> out) const = 0;
  /// Returns a scorer with the same weights and a state of its own, which another thread may use.
  /// Thread-safe. Null if scorers of this class cannot share their weights.
  virtual std::unique_ptr<Scorer> share() const { return nullptr; }
};

struct StoredWeights;

/// A model that scores all items without a network: by the sum of x_ui B_ij over the user's items i or,
/// without B, by popularity.
class ItemModel {
 public:
  virtual ~ItemModel() = default;
  /// Writes the scores of all items for a user x, given as `history`. Thread-safe.
  virtual void score(const SparseRow& history, std::span<float> scores) const = 0;
  /// Returns the number of users that score_all() is best called with, because they share what is read.
  virtual std::int64_t users_at_once() const { return 1; }
  /// Writes the scores of several users, (users, items), which have the same bits. Thread-safe.
  virtual void score_all(std::span<const SparseRow> users, std::span<float> scores) const {
    const std::size_t items = users.empty() ? 0 : scores.size() / users.size();
    for (std::size_t u = 0; u < users.size(); ++u) score(users[u], scores.subspan(u * items, items));
  }
  /// Returns the number of models in this one; at least 1. All other functions are about the first one.
  virtual std::int64_t variants() const { return 1; }
  /// Calls use(v) for each variant v, after writing its scores of several users to `scores`, which have the
  /// bits of score_all() of this model alone. Thread-safe.
  virtual void score_variants(std::span<const SparseRow> users, std::span<float> scores,
                              const std::function<void(std::int64_t variant)>& use) const {
    score_all(users, scores);
    use(0);
  }
  /// Returns B_ij, the weight of item i = `source` in the score of item j = `target`; 0 without B.
  virtual float weight(std::int32_t /*source*/, std::int32_t /*target*/) const { return 0.0F; }
  /// Writes row i = `source` of B, and -infinity for items without a weight. Thread-safe.
  virtual void read_row(std::int32_t source, std::span<float> row) const;
  /// Returns what a checkpoint of this model contains.
  virtual StoredWeights stored() const = 0;
  /// Returns whether stored() has a dense matrix B.
  virtual bool is_dense() const { return false; }
};

/// The contributions of the items of some users to the scores of the k items that are listed for each user.
struct Contributions {
  /// (k, items of the user) for one user after the other; NaN where a contribution is not computed.
  std::vector<float> values;
  /// The magnitude to which rounding errors of each user's scores are relative, besides the sum of the
  /// absolute contributions. Empty: the contributions are approximate, and do not add up to the score.
  std::vector<double> scales;
};

/// Computes with one model what each of a user's items contributes to the score of a recommended item.
class Reasons {
 public:
  /// Number of items of a user that are left out in turn to explain the scores of a network.
  static constexpr std::int64_t max_left_out = 1000;

  virtual ~Reasons() = default;
  /// Returns the contributions of the items `seen`, of which networks leave out those in `last`; without rows
  /// of `last` these are the last max_left_out items by number. `features` has as many rows as `seen`;
  /// `listed` (users, k) contains -1 where no item is listed. For a model that a model-parallel group shares,
  /// collective there, with the same arguments.
  virtual Contributions contributions(CsrView seen, CsrView last, CsrView features,
                                      std::span<const std::int32_t> listed, std::int64_t k) = 0;
};

}  // namespace vaecf::models

namespace vaecf {

#define VAECF_NAMED(name) {models::ModelType::name, #name},
template <>
inline constexpr auto enum_names<models::ModelType> =
    std::to_array<std::pair<models::ModelType, const char*>>({VAECF_MODELS(VAECF_NAMED)});
#undef VAECF_NAMED
template <>
inline constexpr auto enum_names<models::FeaturesInput> = named<models::FeaturesInput>("auto", "false");

}  // namespace vaecf
