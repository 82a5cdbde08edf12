#pragma once

#include <vaecf/device/device.hpp>
#include <vaecf/model/model.hpp>
#include <vaecf/model/model_options.hpp>
#include <vaecf/model/network_shape.hpp>
#include <vaecf/model/step_timer.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace vaecf::model {

/// Input of a network: a batch of users' items and, if the model has features, a batch of the same users'
/// features.
template <class Batch>
struct NetworkInput {
  const Batch& items;
  const Batch* features = nullptr;
};

/// Users stored on the network's device, and the batches that are gathered from them.
template <class Device>
struct NetworkUsers : LoadedUsers {
  NetworkUsers(Device& device, const UserData& users, std::int64_t item_count, std::int64_t feature_count,
               std::int64_t max_users)
      : no_items(static_cast<std::size_t>(max_users) + 1, 0),
        items(device.make_user_rows(users.items, users.first_user, item_count)),
        features(feature_count > 0 ? device.make_user_rows(users.features, users.first_user, feature_count)
                                   : nullptr),
        targets(device.make_user_rows(users.targets, users.first_user, item_count)),
        empty_rows(device.make_user_rows({no_items, {}}, 0, item_count)),
        items_batch(device.make_batch()),
        features_batch(device.make_batch()),
        empty_batch(device.make_batch()) {}

  std::vector<std::int64_t> no_items;  // offsets of empty rows
  std::unique_ptr<typename Device::UserRows> items;
  std::unique_ptr<typename Device::UserRows> features;  // null if the network has none
  std::unique_ptr<typename Device::UserRows> targets;
  std::unique_ptr<typename Device::UserRows> empty_rows;
  std::unique_ptr<typename Device::Batch> items_batch;
  std::unique_ptr<typename Device::Batch> features_batch;
  std::unique_ptr<typename Device::Batch> empty_batch;
  std::vector<std::int64_t> numbers;
  std::unique_ptr<typename Device::MetricAccumulator> totals;  // kept between evaluations
  std::size_t metrics = 0;                                     // of `totals`
};

/// Mult-VAE and Mult-DAE (Liang et al., WWW 2018), implemented with a device's operations. Contains the
/// weights and the activations of one batch. Every batch may have 0 users.
template <class Device>
class Network final : public Model {
 public:
  using Activations = typename Device::Activations;
  using Buffer = typename Device::Buffer;
  using StepState = typename Device::StepState;
  using Input = NetworkInput<typename Device::Batch>;
  using Timer = StepTimer<Device>;
  using FusedUpdate = device::FusedUpdate<typename Device::Parameters, Buffer>;

  /// Makes a network with zero weights for batches of up to `max_rows` users. The size of the weights' buffer
  /// is rounded up to a multiple of `size_multiple`; the additional elements are zero.
  Network(const ModelOptions& options, InputDims inputs, Device& device, std::int64_t max_rows,
          std::int64_t size_multiple = 1);

  /// Adds the loss terms of the batch's users to `step` and writes the gradient of nll + beta * kl into
  /// `gradients`. beta and the random seed come from `step`. Calls `ready` for each range of the gradient as
  /// soon as it is complete. If `fused` is set (only allowed if the device fuses updates), the weights of
  /// fused_layers() are updated immediately and their ranges of `gradients` are undefined.
  void forward_backward(const Input& batch, StepState& step, Buffer& gradients,
                        const device::GradientReady& ready, Timer& timer, const FusedUpdate* fused = nullptr);

  /// Returns the input (B, H) of the output layer for scoring: no dropout, z = mu. Valid until the next call.
  const Activations& forward_for_scoring(const Input& batch) {
    Timer timer(device_, false);
    forward(batch, 1.0F, *scoring_step_, Latent::mean, timer);
    return hidden();
  }

  std::int64_t items() const override { return items_; }
  std::int64_t features() const override { return shape_.features; }
  std::vector<device::TensorSpec> tensors() const override {
    std::vector<device::TensorSpec> specs;
    for (const device::TensorLayout& tensor : layout_.tensors) specs.push_back(tensor.spec);
    return specs;
  }
  void read_rows(int tensor, Range rows, std::span<float> values) const override {
    device_.export_rows(layout_, tensor, rows, parameters_->master(), values);
  }
  void write_rows(int tensor, Range rows, std::span<const float> values) override {
    device_.import_rows(layout_, tensor, rows, values, parameters_->master());
  }
  void finish_writing() override { device_.refresh_weight_copies(*parameters_); }
  std::unique_ptr<LoadedUsers> load_users(const UserData& users) override {
    return std::make_unique<NetworkUsers<Device>>(device_, users, items_, features(), max_rows_);
  }
  std::vector<math::MetricSums> evaluate(LoadedUsers& users, History history,
                                         std::span<const math::Metric> metrics,
                                         const std::function<void()>& progressed) override;
  void top_k(LoadedUsers& users, Range rows, History history, bool keep_seen, int k,
             std::span<std::int32_t> items, std::span<float> scores) override;
  std::int64_t max_users() const override { return max_rows_; }
  void exclude_items(std::span<const std::uint8_t> allowed_items) override;

  /// Returns sum ||W||^2 over the tensors with weight decay.
  double sum_of_squares() {
    double sum = 0.0;
    for (std::size_t i = 0; i < layout_.tensors.size(); ++i) {
      if (layout_.tensors[i].spec.decays) sum += device_.sum_of_squares(*parameters_, static_cast<int>(i));
    }
    return sum;
  }

  const NetworkShape& shape() const { return shape_; }
  const device::ParameterLayout& layout() const { return layout_; }
  typename Device::Parameters& parameters() { return *parameters_; }
  /// Returns the two largest layers: output and input layer.
  std::array<device::Layer, 2> fused_layers() const {
    return {decoder_.back().layer, encoder_.front().layer};
  }

  /// These functions return activations of the last forward pass, for tests. `k` must be less than the number
  /// of hidden layers.
  const Activations& encoder_output(std::size_t k) const { return *encoder_[k].output; }
  const Activations& decoder_output(std::size_t k) const { return *decoder_[k].output; }
  const Activations& latent() const { return z_ ? *z_ : *encoder_.back().output; }
  const Activations& hidden() const {
    return decoder_.size() > 1 ? *decoder_[decoder_.size() - 2].output : latent();
  }

 private:
  struct LayerState {
    device::Layer layer;
    device::Activation act = device::Activation::tanh;
    std::unique_ptr<Activations> output;  // null for the output layer
    std::unique_ptr<Activations> d_output;
  };
  enum class Latent { sampled, mean };

  void forward(const Input& batch, device::InputDropout input_dropout, const StepState& step, Latent how,
               Timer& timer);
  Activations& d_latent() { return d_z_ ? *d_z_ : *encoder_.back().d_output; }
  /// Returns the batch of features and their table, or nullopt for a model without features. Throws
  /// std::logic_error if `batch` has features and the model has not, or the other way round.
  std::optional<device::SideFeatures<typename Device::Batch>> side_of(const Input& batch) const;
  /// Gathers users `rows` and returns their input. Always gathers the batch of their items.
  Input gather(NetworkUsers<Device>& users, Range rows, History history, bool needs_empty);

  Device& device_;
  std::int64_t items_;
  std::int64_t max_rows_;
  device::InputDropout keep_;
  NetworkShape shape_;
  device::ParameterLayout layout_;
  std::unique_ptr<typename Device::Parameters> parameters_;
  int feature_table_ = -1;                   // index in layout_.tensors; -1: none
  std::unique_ptr<StepState> scoring_step_;  // scoring uses no random values, and its losses are not read
  std::vector<LayerState> encoder_;
  std::vector<LayerState> decoder_;
  std::unique_ptr<Activations> z_;  // null if the latent layer's output is z (mult_dae)
  std::unique_ptr<Activations> d_z_;
};

/// Overwrites all weights. Weights are Xavier-uniform with limit sqrt(6 / (inputs + outputs)); for features,
/// the items count as inputs too. Biases are truncated normal with standard deviation 0.001. Values depend
/// only on seed, tensor index and element index (Philox), not on the device or the number of ranks.
void initialize(Model& network, const NetworkShape& shape, std::uint64_t seed);

template <class Device>
Network<Device>::Network(const ModelOptions& options, InputDims inputs, Device& device, std::int64_t max_rows,
                         std::int64_t size_multiple)
    : device_(device),
      items_(inputs.items),
      max_rows_(std::max<std::int64_t>(1, max_rows)),
      keep_(static_cast<float>(1.0 - options.dropout), static_cast<float>(1.0 - options.history_dropout)),
      shape_(network_shape(options, inputs)),
      layout_(device.plan_parameters(tensor_specs(shape_))),
      parameters_(device.make_parameters(layout_,
                                         (layout_.size + size_multiple - 1) / size_multiple * size_multiple)),
      scoring_step_(device.make_step_state()) {
  const auto build = [&](const std::vector<LayerShape>& layers, std::vector<LayerState>& states) {
    for (const LayerShape& layer : layers) {
      LayerState stage;
      stage.layer = {layout_.find(layer.name + "/weight"), layout_.find(layer.name + "/bias")};
      if (layer.weight_kind != device::TensorKind::output_table) {
        stage.output = device.make_activations(max_rows_, layer.outputs);
        stage.d_output = device.make_activations(max_rows_, layer.outputs);
      }
      states.push_back(std::move(stage));
    }
  };
  build(shape_.encoder, encoder_);
  build(shape_.decoder, decoder_);
  if (shape_.features > 0) feature_table_ = layout_.find(shape_.encoder.front().name + "/feature_weight");
  if (shape_.variational) {
    encoder_.back().act = device::Activation::identity;
    z_ = device.make_activations(max_rows_, options.latent);
    d_z_ = device.make_activations(max_rows_, options.latent);
  }
}

template <class Device>
auto Network<Device>::side_of(const Input& batch) const
    -> std::optional<device::SideFeatures<typename Device::Batch>> {
  if ((batch.features != nullptr) != (shape_.features > 0)) {
    throw std::logic_error("features must be passed with each batch if and only if the model has features");
  }
  if (batch.features == nullptr) return std::nullopt;
  return device::SideFeatures<typename Device::Batch>{*batch.features, feature_table_};
}

template <class Device>
void Network<Device>::forward(const Input& batch, device::InputDropout input_dropout, const StepState& step,
                              Latent how, Timer& timer) {
  const LayerState& first = encoder_.front();
  const auto side = side_of(batch);
  device_.sparse_linear(batch.items, *parameters_, first.layer, first.act, input_dropout, step, *first.output,
                        side ? &*side : nullptr);
  timer.end_phase(StepPhase::input);

  const Activations* input = first.output.get();
  const bool samples = z_ && how == Latent::sampled;
  const std::size_t fused = samples && encoder_.size() > 1 ? 1 : 0;  // the last layer, with the sample
  for (std::size_t k = 1; k < encoder_.size() - fused; ++k) {
    device_.linear(*input, *parameters_, encoder_[k].layer, encoder_[k].act, *encoder_[k].output);
    input = encoder_[k].output.get();
  }
  if (fused > 0) {
    const LayerState& last = encoder_.back();
    device_.linear_and_sample(*input, *parameters_, last.layer, batch.items, step, *last.output, *z_);
  } else if (samples) {
    device_.sample_latent(batch.items, *input, step, *z_);
  }
  if (z_ && how == Latent::mean) device_.latent_mean(*input, *z_);
  input = &latent();
  for (std::size_t k = 0; k + 1 < decoder_.size(); ++k) {
    device_.linear(*input, *parameters_, decoder_[k].layer, decoder_[k].act, *decoder_[k].output);
    input = decoder_[k].output.get();
  }
  timer.end_phase(StepPhase::forward);
}

template <class Device>
void Network<Device>::forward_backward(const Input& batch, StepState& step, Buffer& gradients,
                                       const device::GradientReady& ready, Timer& timer,
                                       const FusedUpdate* fused) {
  forward(batch, keep_, step, Latent::sampled, timer);

  const auto gradient_of_output = [&](std::size_t k) -> Activations& {
    return k == 0 ? d_latent() : *decoder_[k - 1].d_output;
  };
  const std::size_t last = decoder_.size() - 1;
  device_.softmax_layer_step(hidden(), batch.items, *parameters_, decoder_[last].layer, step,
                             gradient_of_output(last), gradients, ready, fused);
  timer.end_phase(StepPhase::loss);

  for (std::size_t k = last; k-- > 0;) {
    const Activations& input = k == 0 ? latent() : *decoder_[k - 1].output;
    device_.linear_backward(input, *parameters_, decoder_[k].layer, decoder_[k].act, *decoder_[k].output,
                            *decoder_[k].d_output, &gradient_of_output(k), gradients, ready);
  }
  if (z_) {
    const LayerState& statistics = encoder_.back();
    device_.latent_backward(batch.items, *statistics.output, step, *d_z_, *statistics.d_output);
  }
  for (std::size_t k = encoder_.size() - 1; k > 0; --k) {
    device_.linear_backward(*encoder_[k - 1].output, *parameters_, encoder_[k].layer, encoder_[k].act,
                            *encoder_[k].output, *encoder_[k].d_output, encoder_[k - 1].d_output.get(),
                            gradients, ready);
  }
  const LayerState& first = encoder_.front();
  device_.sparse_linear_backward(batch.items, layout_, first.layer, first.act, keep_, step, *first.output,
                                 *first.d_output, gradients, ready, fused);
  if (const auto side = side_of(batch)) {
    device_.side_features_backward(*side, layout_, *first.d_output, gradients, ready);
  }
  timer.end_phase(StepPhase::backward);
}

template <class Device>
auto Network<Device>::gather(NetworkUsers<Device>& users, Range rows, History history, bool needs_empty)
    -> Input {
  users.numbers.resize(static_cast<std::size_t>(rows.size()));
  if (needs_empty || history == History::none) {
    std::iota(users.numbers.begin(), users.numbers.end(), 0);
    device_.gather_batch(*users.empty_rows, users.numbers, false, *users.empty_batch);
  }
  std::iota(users.numbers.begin(), users.numbers.end(), rows.begin);
  device_.gather_batch(*users.items, users.numbers, false, *users.items_batch);
  if (users.features) device_.gather_batch(*users.features, users.numbers, false, *users.features_batch);
  return {history == History::none ? *users.empty_batch : *users.items_batch,
          users.features ? users.features_batch.get() : nullptr};
}

template <class Device>
std::vector<math::MetricSums> Network<Device>::evaluate(LoadedUsers& users, History history,
                                                        std::span<const math::Metric> metrics,
                                                        const std::function<void()>& progressed) {
  auto& loaded = static_cast<NetworkUsers<Device>&>(users);
  if (!loaded.totals || loaded.metrics != metrics.size()) {
    loaded.totals = device_.make_metric_accumulator(metrics.size());
    loaded.metrics = metrics.size();
  }
  device_.clear_metrics(*loaded.totals);
  const std::int64_t step = std::min(Device::evaluation_batch, max_rows_);
  for (std::int64_t begin = 0; begin < loaded.items->rows(); begin += step) {
    const Range rows{begin, std::min(loaded.items->rows(), begin + step)};
    const Input input = gather(loaded, rows, history, false);
    device_.add_metrics(forward_for_scoring(input), *loaded.items_batch, *loaded.targets, rows, *parameters_,
                        decoder_.back().layer, metrics, *loaded.totals);
    progressed();
  }
  return device_.read_metrics(*loaded.totals);
}

template <class Device>
void Network<Device>::top_k(LoadedUsers& users, Range rows, History history, bool keep_seen, int k,
                            std::span<std::int32_t> items, std::span<float> scores) {
  auto& loaded = static_cast<NetworkUsers<Device>&>(users);
  const Input input = gather(loaded, rows, history, keep_seen);
  device_.top_k(forward_for_scoring(input), keep_seen ? *loaded.empty_batch : *loaded.items_batch,
                *parameters_, decoder_.back().layer, k, items, scores);
}

template <class Device>
void Network<Device>::exclude_items(std::span<const std::uint8_t> allowed_items) {
  // Through the biases, so that no operation needs a mask.
  const int tensor = decoder_.back().layer.bias;
  std::vector<float> bias(allowed_items.size());
  read_rows(tensor, {0, 1}, bias);
  for (std::size_t i = 0; i < allowed_items.size(); ++i) {
    if (allowed_items[i] == 0) bias[i] = -std::numeric_limits<float>::infinity();
  }
  write_rows(tensor, {0, 1}, bias);
  finish_writing();
}

}  // namespace vaecf::model
