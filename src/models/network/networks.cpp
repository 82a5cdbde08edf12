#include <vaecf/base/error.hpp>

#include "models/network/autoencoder_options.hpp"
#include "models/network/network.hpp"
#include "models/network/network_kind.hpp"
#include "models/own_keys.hpp"

namespace vaecf::models {
namespace {

/// A model of the class Network.
class LayeredKind : public NetworkKind {
 public:
  using NetworkKind::NetworkKind;
  std::unique_ptr<TrainableModel> make(const ModelOptions& options, InputDims inputs, device::Device& device,
                                       std::int64_t max_users, std::int64_t size_multiple) const final {
    return std::make_unique<Network>(shape(options, inputs), inputs, device, max_users, size_multiple);
  }
};

class MultVaeKind final : public LayeredKind {
 public:
  MultVaeKind() : LayeredKind(ModelType::mult_vae, "Mult-VAE", "variational") {}
  std::vector<std::string_view> used_keys() const override {
    return {"model.hidden",        "model.latent",     "model.dropout",     "model.history_dropout",
            "model.user_features", "train.annealing.", "train.weight_decay"};
  }
  NetworkShape shape(const ModelOptions& options, InputDims inputs) const override {
    return network_shape(options, inputs, true);
  }
  KlTerm kl_term() const override { return KlTerm::annealed; }
  bool has_parameter_server() const override { return true; }
};

class MultDaeKind final : public LayeredKind {
 public:
  MultDaeKind() : LayeredKind(ModelType::mult_dae, "Mult-DAE", "denoising, no sampling, no KL") {}
  std::vector<std::string_view> used_keys() const override {
    return {"model.hidden",          "model.latent",        "model.dropout",
            "model.history_dropout", "model.user_features", "train.weight_decay"};
  }
  NetworkShape shape(const ModelOptions& options, InputDims inputs) const override {
    return network_shape(options, inputs, false);
  }
  bool has_parameter_server() const override { return true; }
};

class AutoencoderKind final : public LayeredKind {
 public:
  AutoencoderKind()
      : LayeredKind(ModelType::autoencoder, "autoencoder", "plain, for comparison (experimental)") {}

  std::vector<std::string_view> used_keys() const override {
    return {"model.hidden", "model.latent", "model.user_features", "train.weight_decay"};
  }
  std::vector<std::string_view> experimental_keys() const override { return {"model.autoencoder."}; }

  std::vector<keys::Key<ModelOptions>> keys() const override {
    using namespace keys;
    return own_keys<AutoencoderOptions>(
        *this, {make_key<AutoencoderOptions>("activation", &AutoencoderOptions::activation,
                                             "autoencoder: activation of all layers but the output layer"),
                make_key<AutoencoderOptions>(
                    "loss", &AutoencoderOptions::loss,
                    "autoencoder: squared: mean squared error of sigmoid outputs; multinomial: as mult_dae"),
                make_key<AutoencoderOptions>(
                    "initial_deviation", &AutoencoderOptions::initial_deviation, fp32_positive(),
                    "autoencoder: standard deviation of the initial weights and biases")});
  }

  NetworkShape shape(const ModelOptions& options, InputDims inputs) const override {
    NetworkShape shape = network_shape(options, inputs, false);
    const auto& own = own_options<AutoencoderOptions>(options);
    shape.activation = own.activation;
    shape.loss = own.loss;
    shape.input = 1.0F;
    shape.input.normalized = false;
    shape.initial_deviation = static_cast<float>(own.initial_deviation);
    return shape;
  }

  void validate(const ModelOptions& options, const io::DatasetFile& dataset) const override {
    if (!dataset.weighted() || own_options<AutoencoderOptions>(options).loss != device::Loss::squared) return;
    throw InputError(format(
        "model.type: {} with model.autoencoder.loss: squared predicts probabilities between 0 and 1, but {} has interaction weights, which may be larger; set model.autoencoder.loss to multinomial, choose another model, or prepare the dataset with data.prepare.interaction_weights: null",
        name(), dataset.path()));
  }

  void describe(const ModelOptions& options, std::map<std::string, std::string>& metadata) const override {
    const auto& own = own_options<AutoencoderOptions>(options);
    metadata["activation"] = to_string(own.activation);
    metadata["loss"] = to_string(own.loss);
  }
};

}  // namespace

const Kind& mult_vae_kind() {
  static const MultVaeKind kind;
  return kind;
}

const Kind& mult_dae_kind() {
  static const MultDaeKind kind;
  return kind;
}

const Kind& autoencoder_kind() {
  static const AutoencoderKind kind;
  return kind;
}

}  // namespace vaecf::models
