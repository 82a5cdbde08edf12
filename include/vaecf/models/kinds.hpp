#pragma once

#include <vaecf/base/enum_names.hpp>
#include <vaecf/device/options.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace vaecf::models {

/// The models; kind_of() tells about each (models/kind.hpp).
enum class ModelType { mult_vae, mult_dae, recvae, ease, item_knn, elsa, autoencoder };

/// Maximum width of a layer. One wider layer would need gigabytes, so larger values are treated as typing
/// errors.
inline constexpr std::int64_t max_layer_width = 1 << 20;

/// Use of users' features as input; automatic: if the dataset has features.
enum class FeaturesInput { automatic, off };

/// A grid of values for the keys of EASE that the configuration does not set.
enum class EaseSearch { none, standard };

/// EASE and the linear models around the same inverse (math/linear_models.hpp). Every combination of the
/// values is solved, and the best one on the validation users is used.
struct EaseOptions {
  /// Ridge penalty, in users of mean weight; above 0. Empty: usual values if they can be compared, else 500.
  std::vector<double> l2 = {};
  std::vector<double> dropout = {0.0};         ///< dropout probability p of EDLAE; 0: EASE
  std::int64_t neighbors = 0;                  ///< neighbors of each item; 0: all items
  std::vector<double> user_power = {0.0};      ///< b of the weight n_u^-b of a user with n_u items
  std::vector<double> relax = {0.0};           ///< upper bound of the diagonal of B; 1: none
  std::vector<double> kept_weight = {0.0};     ///< weight of targets that dropout keeps in the input
  std::vector<double> feature_weight = {0.0};  ///< beta of CEASE: weight of each feature of items, in users
  EaseSearch search = EaseSearch::none;  ///< `none` once the configuration is read: then the lists count
  bool operator==(const EaseOptions&) const = default;
};

/// The side on which item-kNN keeps the nearest neighbors.
enum class NeighborsPer { target, source };

struct ItemKnnOptions {
  static constexpr double automatic = -1.0;

  std::int64_t neighbors = 100;  ///< 0: all items
  double shrink = 0.0;
  double source_power = 0.5;  ///< exponent of the source item's popularity in the similarity; 0.5: cosine
  double target_power = automatic;  ///< that of the target item; automatic: 1 - source_power
  double user_power = 0.0;          ///< b of the weight n_u^-b of a user with n_u items
  double power = 1.0;               ///< exponent of the similarity; above 0
  NeighborsPer per = NeighborsPer::target;

  double resolved_target_power() const {
    return target_power == automatic ? 1.0 - source_power : target_power;
  }
};

struct ElsaOptions {
  std::int64_t factors = 256;  ///< width r of the item vectors
};

/// The plain autoencoder.
struct AutoencoderOptions {
  device::Activation activation = device::Activation::sigmoid;  ///< all layers but the output layer have it
  device::Loss loss = device::Loss::squared;                    ///< squared: outputs are sigmoid(logits)
  double initial_deviation = 1.0;  ///< standard deviation of the initial weights and biases; above 0
};

/// RecVAE (Shenbin et al., WSDM 2020).
struct RecVaeOptions {
  double gamma = 0.005;  ///< KL weight of a user per item; used if `beta` is 0
  double beta = 0.0;     ///< constant KL weight; 0: gamma times the user's number of items
  /// Weights of the prior's components: N(0, 1), the old encoder's posterior, N(0, e^10). Their sum is 1.
  std::vector<double> prior_weights = {0.15, 0.75, 0.1};
  std::int64_t encoder_passes = 3;  ///< passes over the users per epoch that update the encoder
  std::int64_t decoder_passes = 1;  ///< passes after them that update the decoder
};

/// The low-rank term of the weights between items of EASE and item-kNN (models/linear/low_rank.hpp). All
/// combinations of the lists are tried with the best solution of the keys of the model.
struct LowRankOptions {
  std::vector<std::int64_t> factors = {0};  ///< width of the basis; 0: no term
  std::vector<double> weight = {0.8};       ///< alpha; above 0
  std::vector<double> power = {0.0};        ///< beta, of the numbers of users
  std::int64_t iterations = 8;
  std::int64_t keep = 0;  ///< weights of each target that remain of the sum with sparse weights

  std::int64_t most_factors() const { return *std::max_element(factors.begin(), factors.end()); }
  bool enabled() const { return most_factors() > 0; }
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
  RecVaeOptions recvae = {};
  EaseOptions ease = {};
  ItemKnnOptions item_knn = {};
  LowRankOptions low_rank = {};
  ElsaOptions elsa = {};
  AutoencoderOptions autoencoder = {};
};

}  // namespace vaecf::models

namespace vaecf {

template <>
inline constexpr auto enum_names<models::ModelType> = named<models::ModelType>("mult_vae", "mult_dae",
                                                                               "recvae", "ease", "item_knn",
                                                                               "elsa", "autoencoder");
template <>
inline constexpr auto enum_names<models::NeighborsPer> = named<models::NeighborsPer>("target", "source");
template <>
inline constexpr auto enum_names<models::EaseSearch> = named<models::EaseSearch>("null", "standard");
template <>
inline constexpr auto enum_names<models::FeaturesInput> = named<models::FeaturesInput>("auto", "false");

}  // namespace vaecf
