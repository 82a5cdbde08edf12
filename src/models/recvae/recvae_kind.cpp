#include "models/network/network_kind.hpp"
#include "models/own_keys.hpp"
#include "models/recvae/recvae.hpp"

namespace vaecf::models {
namespace {

class RecVaeKind final : public NetworkKind {
 public:
  RecVaeKind()
      : NetworkKind(ModelType::recvae, "RecVAE",
                    "variational, composite prior, encoder and decoder updated in turn") {}

  std::vector<std::string_view> used_keys() const override {
    return {"model.hidden", "model.latent", "model.dropout", "model.history_dropout", "model.user_features"};
  }

  std::vector<keys::Key<ModelOptions>> keys() const override {
    using namespace keys;
    return own_keys<RecVaeOptions>(
        *this,
        {make_key<RecVaeOptions>("gamma", &RecVaeOptions::gamma, at_least(0.0),
                                 "RecVAE: KL weight of a user per item of the user"),
         or_word(make_key<RecVaeOptions>(
                     "beta", &RecVaeOptions::beta, positive(),
                     "RecVAE: KL weight of every user; null: gamma times the user's number of items"),
                 "null"),
         make_key<RecVaeOptions>(
             "prior_weights", &RecVaeOptions::prior_weights, mixture_of(3),
             "RecVAE: weights of the prior's components: N(0, 1), the old encoder's posterior, N(0, e^10)"),
         make_key<RecVaeOptions>("encoder_passes", &RecVaeOptions::encoder_passes, between(1, 1000),
                                 "RecVAE: passes over the train users per epoch that update the encoder"),
         make_key<RecVaeOptions>("decoder_passes", &RecVaeOptions::decoder_passes, between(1, 1000),
                                 "RecVAE: passes after them that update the decoder")});
  }

  std::vector<std::string> without_effect(const ModelOptions& options) const override {
    if (own_options<RecVaeOptions>(options).beta == 0.0) return {};
    return {"model.recvae.gamma"};
  }

  NetworkShape shape(const ModelOptions& options, InputDims inputs) const override {
    return recvae_shape(options, inputs);
  }

  std::unique_ptr<TrainableModel> make(const ModelOptions& options, InputDims inputs, device::Device& device,
                                       std::int64_t max_users, std::int64_t size_multiple) const override {
    return std::make_unique<RecVae>(options, inputs, device, max_users, size_multiple);
  }

  /// The old encoder.
  std::vector<device::TensorSpec> derived_tensors(const ModelOptions& options,
                                                  InputDims inputs) const override {
    std::vector<device::TensorSpec> encoder = tensors(options, inputs);
    encoder.erase(encoder.begin(), encoder.begin() + encoder_tensors);
    return encoder;
  }

  std::vector<int> passes(const ModelOptions& options) const override {
    const auto& own = own_options<RecVaeOptions>(options);
    std::vector<int> groups(static_cast<std::size_t>(own.encoder_passes), recvae_encoder);
    groups.insert(groups.end(), static_cast<std::size_t>(own.decoder_passes), recvae_decoder);
    return groups;
  }

  std::vector<std::string> parameter_groups() const override { return {"decoder", "encoder"}; }

  /// Encoder passes also have the forward pass of the old encoder; each pass computes only the gradients that
  /// its parameter group needs.
  double operations(const ModelOptions& options,
                    const std::vector<device::TensorSpec>& tensors) const override {
    const auto weights = static_cast<double>(dense_weights(tensors));
    const auto decoder = static_cast<double>(dense_weights({tensors.front()}));
    const double encoder = weights - decoder;
    const auto& own = own_options<RecVaeOptions>(options);
    const auto encoder_passes = static_cast<double>(own.encoder_passes);
    const auto decoder_passes = static_cast<double>(own.decoder_passes);
    return (encoder_passes * (8.0 * encoder + 4.0 * decoder) +
            decoder_passes * (2.0 * encoder + 4.0 * decoder)) /
           (encoder_passes + decoder_passes);
  }

  KlTerm kl_term() const override { return KlTerm::of_model; }
  double kl_weight(const ModelOptions& options) const override {
    return own_options<RecVaeOptions>(options).beta;
  }
};

}  // namespace

const Kind& recvae_kind() {
  static const RecVaeKind kind;
  return kind;
}

}  // namespace vaecf::models
