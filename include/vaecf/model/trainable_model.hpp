#pragma once

#include <vaecf/device/device.hpp>
#include <vaecf/model/model.hpp>
#include <vaecf/model/network_shape.hpp>
#include <vaecf/model/step_timer.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace vaecf::model {

/// Input of a network: a batch of users' items and, if the model has features, a batch of the features of its
/// own users.
template <class Batch>
struct NetworkInput {
  const Batch& items;
  const Batch* features = nullptr;
};

/// Users stored on the network's device, and the batches that are gathered from them.
template <class Device>
struct NetworkUsers : LoadedUsers {
  NetworkUsers(Device& device, const UserData& users, std::int64_t item_count, std::int64_t feature_count,
               std::int64_t max_users, device::ItemSlices& slices)
      : no_items(static_cast<std::size_t>(max_users) + 1, 0),
        cut(cut_rows(users.items, item_count, slices)),
        items(device.make_user_rows(slices.count() > 1 ? cut.view() : users.items, users.first_user,
                                    item_count, slices)),
        features(feature_count > 0 ? device.make_user_rows(users.features, users.first_user, feature_count)
                                   : nullptr),
        targets(device.make_user_rows(users.targets, users.first_user, item_count)),
        empty_rows(device.make_user_rows(CsrView{no_items, {}}, 0, item_count, slices)),
        items_batch(device.make_batch()),
        features_batch(device.make_batch()),
        empty_batch(device.make_batch()) {}

  static RowsOfSlice cut_rows(CsrView rows, std::int64_t item_count, device::ItemSlices& slices) {
    RowsOfSlice cut;
    if (slices.count() > 1) cut.append(rows, slices.slice(item_count));
    return cut;
  }

  std::vector<std::int64_t> no_items;  // offsets of empty rows
  RowsOfSlice cut;  // the part of the users' items in this rank's slice; empty if it is all
  std::unique_ptr<typename Device::UserRows> items;
  std::unique_ptr<typename Device::UserRows> features;  // null if the network has none
  std::unique_ptr<typename Device::UserRows> targets;
  std::unique_ptr<typename Device::UserRows> empty_rows;
  std::unique_ptr<typename Device::Batch> items_batch;
  std::unique_ptr<typename Device::Batch> features_batch;
  std::unique_ptr<typename Device::Batch> empty_batch;
  std::vector<std::int64_t> numbers;
  std::unique_ptr<typename Device::MetricValues> values;  // kept between evaluations
  std::size_t metrics = 0;                                // of `values`
};

/// A model that is trained by steps on batches of users, with the operations of one device. This class
/// contains the weights, and implements evaluation and top k for models whose scores are those of an output
/// layer; a derived class implements the passes through the layers. Every batch may have 0 users.
template <class Device>
class TrainableModel : public Model {
 public:
  using Activations = typename Device::Activations;
  using Buffer = typename Device::Buffer;
  using StepState = typename Device::StepState;
  using Input = NetworkInput<typename Device::Batch>;
  using Timer = StepTimer<Device>;
  using FusedUpdate = device::FusedUpdate<typename Device::Parameters, Buffer>;

  /// Makes a model with zero weights for batches of up to `max_rows` users of the group. The size of the
  /// weights' buffer is rounded up to a multiple of `size_multiple`, as is the begin of a run of slices in
  /// `layout`; the additional elements are zero. `device` must outlive the model.
  TrainableModel(Device& device, InputDims inputs, device::ParameterLayout layout, std::int64_t max_rows,
                 std::int64_t size_multiple)
      : device_(device),
        slices_(*inputs.slices),
        items_(inputs.items),
        features_(inputs.features),
        max_rows_(std::max<std::int64_t>(1, max_rows)),
        layout_(align_slices(std::move(layout), size_multiple)),
        parameters_(device.make_parameters(
            layout_, (layout_.size + size_multiple - 1) / size_multiple * size_multiple)),
        scoring_step_(device.make_step_state()) {}

  /// Returns the ranges of flat elements that a step updates; each step updates one of them. Every parameter
  /// is in one group. Groups begin at multiples of `size_multiple`.
  virtual std::vector<Range> update_groups() const { return {{0, layout_.size}}; }

  /// Returns the parameters of the prior, which the loss needs beside parameters(), or null. They are copies
  /// of the flat elements prior_elements(), of the time of the last start_epoch().
  virtual typename Device::Parameters* prior() { return nullptr; }
  /// Returns the flat elements of parameters() that prior() copies; empty without a prior.
  virtual Range prior_elements() const { return {}; }
  /// Copies parameters() to prior(). Must be called before the first step of an epoch.
  void start_epoch() {
    if (prior() == nullptr) return;
    device_.copy(parameters_->master(), prior_elements(), prior()->master(), 0);
    device_.refresh_weight_copies(*prior());
  }

  /// Overwrites all weights with the initial values for `seed`. They do not depend on the device or the
  /// number of ranks.
  virtual void initialize(std::uint64_t seed) = 0;

  /// Adds the loss terms of the batch's users to `step`, and writes the gradient of the loss by the
  /// parameters of update group `group` into `gradients`, as sums over users. The KL weight beta and the
  /// random seed come from `step`. Calls `ready` for each range of the gradient as soon as it is complete. If
  /// `fused` is set (only allowed if the device fuses updates), the tensors fused_tensors() are updated
  /// immediately and their ranges of `gradients` are undefined.
  virtual void forward_backward(const Input& batch, StepState& step, Buffer& gradients,
                                const device::GradientReady& ready, Timer& timer,
                                const FusedUpdate* fused = nullptr, int group = 0) = 0;

  /// Returns the input (B, H) of the output layer for scoring: without dropout and noise. Valid until the
  /// next call.
  virtual const Activations& forward_for_scoring(const Input& batch) = 0;
  /// Returns the layer of output_parameters() that computes the scores from the activations of
  /// forward_for_scoring().
  virtual device::Layer output_layer() const = 0;
  /// Returns the parameters that contain the output layer. Those of a model which computes this layer from
  /// its weights belong to no checkpoint.
  virtual typename Device::Parameters& output_parameters() { return *parameters_; }

  /// Returns the indices of the tensors that forward_backward() updates immediately if `fused` is set: the
  /// tensors of items. None: it ignores `fused`.
  virtual std::vector<int> fused_tensors() const { return {}; }

  std::int64_t items() const override { return items_; }
  std::int64_t features() const override { return features_; }
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
    return std::make_unique<NetworkUsers<Device>>(device_, users, items_, features_, max_rows_, slices_);
  }
  std::vector<double> evaluate(LoadedUsers& users, History history, std::span<const math::Metric> metrics,
                               const std::function<void(std::int64_t users)>& progressed) override;
  void top_k(LoadedUsers& users, Range rows, History history, bool keep_seen, int k,
             std::span<std::int32_t> items, std::span<float> scores) override;
  std::int64_t max_users() const override { return max_rows_; }
  bool divides_items() const override { return slices_.count() > 1; }
  Range own_users(std::int64_t users) const override { return slices_.own_users(users); }
  void exclude_items(std::span<const std::uint8_t> allowed_items) override;

  /// Returns sum ||W||^2 over the tensors with weight decay: of tensors that are slices, or of the others.
  double sum_of_squares(bool slices = false) {
    double sum = 0.0;
    for (std::size_t i = 0; i < layout_.tensors.size(); ++i) {
      const device::TensorSpec& spec = layout_.tensors[i].spec;
      if (spec.decays && spec.slice.has_value() == slices)
        sum += device_.sum_of_squares(*parameters_, static_cast<int>(i));
    }
    return sum;
  }

  const device::ParameterLayout& layout() const { return layout_; }
  typename Device::Parameters& parameters() { return *parameters_; }

 protected:
  /// Returns the maximum number of users of a batch that this rank carries through the layers.
  std::int64_t own_rows() const { return slices_.part_rows(max_rows_); }
  /// Gathers users `rows` and returns their input. Always gathers the batch of their items.
  Input gather(NetworkUsers<Device>& users, Range rows, History history, bool needs_empty);

  Device& device_;
  device::ItemSlices& slices_;
  std::int64_t items_;
  std::int64_t features_;
  std::int64_t max_rows_;
  device::ParameterLayout layout_;
  std::unique_ptr<typename Device::Parameters> parameters_;
  std::unique_ptr<StepState> scoring_step_;  // scoring uses no random values, and its losses are not read
};

template <class Device>
auto TrainableModel<Device>::gather(NetworkUsers<Device>& users, Range rows, History history,
                                    bool needs_empty) -> Input {
  users.numbers.resize(static_cast<std::size_t>(rows.size()));
  if (needs_empty || history == History::none) {
    std::iota(users.numbers.begin(), users.numbers.end(), 0);
    device_.gather_batch(*users.empty_rows, users.numbers, false, *users.empty_batch);
  }
  std::iota(users.numbers.begin(), users.numbers.end(), rows.begin);
  device_.gather_batch(*users.items, users.numbers, false, *users.items_batch);
  if (users.features) {
    const Range own = slices_.own_users(rows.size());
    const std::span numbers(users.numbers);
    device_.gather_batch(
        *users.features,
        numbers.subspan(static_cast<std::size_t>(own.begin), static_cast<std::size_t>(own.size())), false,
        *users.features_batch);
  }
  return {history == History::none ? *users.empty_batch : *users.items_batch,
          users.features ? users.features_batch.get() : nullptr};
}

template <class Device>
std::vector<double> TrainableModel<Device>::evaluate(
    LoadedUsers& users, History history, std::span<const math::Metric> metrics,
    const std::function<void(std::int64_t users)>& progressed) {
  auto& loaded = static_cast<NetworkUsers<Device>&>(users);
  if (!loaded.values || loaded.metrics != metrics.size()) {
    loaded.values = device_.make_metric_values(metrics.size(), loaded.items->rows());
    loaded.metrics = metrics.size();
  }
  const std::int64_t step = std::min(Device::evaluation_batch, max_rows_);
  for (std::int64_t begin = 0; begin < loaded.items->rows(); begin += step) {
    const Range rows{begin, std::min(loaded.items->rows(), begin + step)};
    const Input input = gather(loaded, rows, history, false);
    device_.compute_metrics(forward_for_scoring(input), *loaded.items_batch, *loaded.targets, rows,
                            output_parameters(), output_layer(), metrics, *loaded.values);
    progressed(rows.end);
  }
  return device_.read_metrics(*loaded.values);
}

template <class Device>
void TrainableModel<Device>::top_k(LoadedUsers& users, Range rows, History history, bool keep_seen, int k,
                                   std::span<std::int32_t> items, std::span<float> scores) {
  auto& loaded = static_cast<NetworkUsers<Device>&>(users);
  const Input input = gather(loaded, rows, history, keep_seen);
  const Range own = slices_.own_users(rows.size());
  items = items.subspan(static_cast<std::size_t>(own.begin * k), static_cast<std::size_t>(own.size() * k));
  scores = scores.subspan(static_cast<std::size_t>(own.begin * k), static_cast<std::size_t>(own.size() * k));
  device_.top_k(forward_for_scoring(input), keep_seen ? *loaded.empty_batch : *loaded.items_batch,
                output_parameters(), output_layer(), k, items, scores);
}

template <class Device>
void TrainableModel<Device>::exclude_items(std::span<const std::uint8_t> allowed_items) {
  // Through the biases, so that no operation needs a mask.
  const int tensor = output_layer().bias;
  typename Device::Parameters& output = output_parameters();
  const ItemSlice slice = slices_.slice(items_);
  std::vector<float> bias(static_cast<std::size_t>(slice.count()));
  device_.export_rows(output.layout(), tensor, {0, 1}, output.master(), bias);
  for (std::size_t i = 0; i < bias.size(); ++i) {
    const auto item = static_cast<std::size_t>(slice.global(static_cast<std::int64_t>(i)));
    if (allowed_items[item] == 0) bias[i] = -std::numeric_limits<float>::infinity();
  }
  device_.import_rows(output.layout(), tensor, {0, 1}, bias, output.master());
  device_.refresh_weight_copies(output);
}

}  // namespace vaecf::model
