#pragma once

#include <vaecf/backend/backend.hpp>
#include <vaecf/model/model.hpp>
#include <vaecf/model/model_options.hpp>
#include <vaecf/model/network_shape.hpp>
#include <vaecf/model/step_clock.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace vaecf::model {

/// A batch of users: what they have, and, where the model knows features, a batch of the same users'
/// features.
struct ModelInput {
  ModelInput(const backend::Batch& item_rows, const backend::Batch* feature_rows = nullptr)
      : items(item_rows), features(feature_rows) {}
  const backend::Batch& items;
  const backend::Batch* features;
};

/// Mult-VAE and Mult-DAE (Liang et al., WWW 2018) over a backend's verbs: the weights, the activations of
/// one batch, and what is differentiated. Holds one batch at a time; every batch may have 0 users.
class Network final : public Model {
 public:
  /// Weights are zero until `initialise` or an import. Batches of up to `max_rows` users. The weights' buffer
  /// holds a multiple of `size_multiple` elements, zeros behind the layout's.
  Network(const ModelOptions& options, Inputs inputs, backend::Backend& backend, std::int64_t max_rows,
          std::int64_t size_multiple = 1);

  /// Xavier-uniform weights (limit sqrt(6 / (inputs + outputs)), of features with the items among the inputs)
  /// and truncated normal biases (sd 0.001), by Philox from seed, tensor number and index alone: the same for
  /// any rank count and backend.
  void initialise(std::uint64_t seed);

  /// Sums over the users of the batch of the loss terms, into `step`, and of the gradient of
  /// nll + beta * kl, into `gradients`, with beta and randomness as `step` says; ranges are told to `ready`
  /// as they become final. With `fused` (only where the backend fuses updates) `fused_layers` are updated at
  /// once instead, and their ranges of `gradients` mean nothing.
  void forward_backward(const ModelInput& batch, backend::StepState& step, backend::FloatBuffer& gradients,
                        const backend::GradientReady& ready, StepClock& clock,
                        const backend::FusedUpdate* fused = nullptr);

  /// The same loss terms, dropout and noise included, without gradients.
  void loss(const ModelInput& batch, backend::StepState& step);

  /// The input of the output layer for scoring, (B, H): no dropout, z = mu. Valid until the next call.
  const backend::Activations& hidden_for_scoring(const ModelInput& batch);

  std::int64_t items() const override { return items_; }
  std::int64_t features() const override { return shape_.features; }
  std::vector<backend::TensorSpec> tensors() const override;
  void write_rows(int tensor, Range rows, std::span<const float> values) override;
  void finish_writing() override;
  std::unique_ptr<HeldUsers> hold(const UserData& users) override;
  std::vector<math::MetricSums> evaluate(HeldUsers& users, History history,
                                         std::span<const math::Metric> metrics,
                                         const std::function<void()>& progressed) override;
  void top_k(HeldUsers& users, Range rows, History history, bool keep_seen, int k,
             std::span<std::int32_t> items, std::span<float> scores) override;
  std::int64_t max_users() const override { return max_rows_; }
  void exclude_items(std::span<const std::uint8_t> offers) override;

  /// sum ||W||^2 over the tensors that decay.
  double sum_of_squares();
  /// Weights of the layers computed as dense products: all but the input table, whose product is a gather.
  std::int64_t dense_weights() const;

  const NetworkShape& shape() const { return shape_; }
  const backend::ParameterLayout& layout() const { return layout_; }
  backend::Parameters& parameters() { return *parameters_; }
  /// The largest layers: those of the output and of the input.
  std::array<backend::Layer, 2> fused_layers() const {
    return {decoder_.back().layer, encoder_.front().layer};
  }

  /// Activations of the last forward pass; for tests and for those who look inside.
  const backend::Activations& encoder_output(std::size_t k) const { return *encoder_[k].output; }
  /// k below the number of hidden layers.
  const backend::Activations& decoder_output(std::size_t k) const { return *decoder_[k].output; }
  const backend::Activations& latent() const;
  const backend::Activations& hidden() const;

 private:
  struct Stage {
    backend::Layer layer;
    backend::Activation act = backend::Activation::tanh;
    std::unique_ptr<backend::Activations> output;  // null for the output layer
    std::unique_ptr<backend::Activations> d_output;
  };
  enum class Latent { sampled, mean };

  void forward(const ModelInput& batch, backend::Keep keep, const backend::StepState& step, Latent how,
               StepClock& clock);
  backend::Activations& d_latent();
  /// std::logic_error where features are missing, or are none of this model's business.
  std::optional<backend::SideInput> side_of(const ModelInput& batch) const;

  backend::Backend& backend_;
  std::int64_t items_;
  std::int64_t max_rows_;
  backend::Keep keep_;
  NetworkShape shape_;
  backend::ParameterLayout layout_;
  std::unique_ptr<backend::Parameters> parameters_;
  int feature_table_ = -1;                            // in layout_.tensors
  std::unique_ptr<backend::StepState> scoring_step_;  // scoring draws nothing, so nobody looks at it
  std::vector<Stage> encoder_;
  std::vector<Stage> decoder_;
  std::unique_ptr<backend::Activations> z_;  // null where the latent layer's output is z (mult_dae)
  std::unique_ptr<backend::Activations> d_z_;
};

}  // namespace vaecf::model
