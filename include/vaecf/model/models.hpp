#pragma once

#include <vaecf/model/model_options.hpp>

#include <string_view>

namespace vaecf::model {

/// The facts about a model that decide what the program does with it.
struct ModelFacts {
  ModelType type;
  bool solved = false;        ///< solved at once: weights between items, see train/item_models; else in steps
  bool inverts = false;       ///< solved by inverses, one or more for the values of model.ease
  bool layers = false;        ///< a network of layers, of the widths model.hidden and model.latent
  bool item_vectors = false;  ///< one vector of each item, of the width model.elsa.factors
  bool plain = false;         ///< layers with the activation, loss and input of the plain autoencoder
  bool features = false;      ///< may have the users' features as input
  bool has_kl = false;        ///< the loss has a KL term with a weight
  bool anneals = false;       ///< the weight of the KL term grows as train.annealing selects
  /// Encoder and decoder are updated in turn, with a composite prior and the KL weight of model.recvae.
  bool alternates = false;
  bool parameter_server = false;  ///< can be trained with a parameter server
};

/// Returns the facts about models of a type.
const ModelFacts& facts_of(ModelType type);

/// Returns the facts about the model called `name` in a file; null if there is none.
const ModelFacts* find_model(std::string_view name);

/// Returns whether models of a type are solved at once.
inline bool is_solved(ModelType type) {
  return facts_of(type).solved;
}

}  // namespace vaecf::model
