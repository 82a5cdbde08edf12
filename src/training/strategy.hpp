#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/comm/rank_grid.hpp>
#include <vaecf/config/training_config.hpp>
#include <vaecf/data/shards.hpp>
#include <vaecf/device/device.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/models/trainable_model.hpp>
#include <vaecf/run/run.hpp>
#include <vaecf/training/trainer.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace vaecf::training {

/// The sparse rows of this rank's training users, items or features, and the batch gathered from them.
class ShardRows {
 public:
  /// Row 0 belongs to training user `first_user`. Columns are those of the item slice of `width` columns that
  /// `model_parallel` has.
  ShardRows(device::Device& device, ItemSliceRows rows, std::int64_t first_user, std::int64_t width,
            device::ModelParallelGroup& model_parallel);

  void upload_pass(const data::EpochRows& batches) {
    device_.upload_batch_schedule(*held_, batches.rows, batches.begin, *schedule_);
  }
  void start_pass() { device_.start_batch_schedule(*held_, *schedule_); }
  std::int64_t users(std::int64_t batch) const { return schedule_->users(batch); }
  /// Gathers the batch selected by `step`, which has `users` users of this rank.
  const device::Batch& gather(const device::StepState& step, std::int64_t users) {
    device_.gather_scheduled_batch(*held_, *schedule_, step, users, *batch_);
    return *batch_;
  }

  const device::UserRows& held() const { return *held_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  device::Device& device_;
  ItemSliceRows rows_;
  std::int64_t bytes_;
  std::unique_ptr<device::UserRows> held_;
  std::unique_ptr<device::BatchSchedule> schedule_;
  std::unique_ptr<device::Batch> batch_;
};

/// The data of a training on a device, for all strategies: this rank's users, the model, and the step state.
class TrainingData {
 public:
  /// Reads users `rows` of /train of this rank's model-parallel group (empty on a parameter server), and
  /// makes the model with initial weights for `seed`, for batches of at most `max_users` users of the
  /// model-parallel group. Pads the buffer of weights to a multiple of `size_multiple` elements.
  TrainingData(device::Device& device, const io::DatasetFile& dataset, Range rows,
               const models::ModelOptions& options, const models::InputDims& inputs, std::int64_t max_users,
               std::int64_t size_multiple, std::uint64_t seed);

  void upload_pass(const data::EpochRows& batches);
  void start_pass();
  /// Gathers the batch selected by the step state, which has `users` users of this rank's model-parallel
  /// group.
  models::NetworkInput gather(std::int64_t users);

  device::Device& device;
  device::ModelParallelGroup& model_parallel;
  ShardRows items;
  std::unique_ptr<ShardRows> features;  ///< null if the model has none
  std::unique_ptr<device::StepState> state;
  std::unique_ptr<models::TrainableModel> model;

 private:
  data::EpochRows own_users(const data::EpochRows& batches) const;
};

/// The moments of all weights, or of the shard that a rank owns, and their update. The caller counts the
/// updates, and passes the rule to the device in device::StepParams.
class Optimizer {
 public:
  /// Allocates the moments of `elements` elements. `weight_decay` is lambda of the loss term lambda * sum
  /// ||W||^2. Gradients with a larger L2 norm than `clip_norm` are scaled down to it; 0 disables clipping.
  /// `device` must outlive this object.
  Optimizer(const config::OptimizerOptions& options, double weight_decay, device::Device& device,
            std::int64_t elements, double clip_norm = 0.0)
      : options_(options),
        weight_decay_(weight_decay),
        clip_norm_(clip_norm),
        device_(device),
        first_moment_(device.make_buffer(elements)),
        second_moment_(device.make_buffer(elements)) {}

  /// Returns the rule of update number updates_done + 1, for a gradient summed over `users` users. Its decay
  /// applies to tensors with weight decay only. Adam (Kingma and Ba 2015) in TensorFlow's form: rate =
  /// learning_rate * sqrt(1 - beta2^t) / (1 - beta1^t), t = updates_done + 1, computed in fp64.
  device::UpdateRule rule(std::int64_t updates_done, std::int64_t users) const {
    double rate = options_.learning_rate;
    const bool adam = options_.type == device::OptimizerKind::adam;
    if (adam) {
      const auto t = static_cast<double>(updates_done + 1);
      rate *= std::sqrt(1.0 - std::pow(options_.beta2, t)) / (1.0 - std::pow(options_.beta1, t));
    }
    device::UpdateRule rule;
    rule.kind = options_.type;
    rule.rate = static_cast<float>(rate);
    rule.beta1 = static_cast<float>(adam ? options_.beta1 : options_.momentum);
    rule.beta2 = static_cast<float>(options_.beta2);
    rule.epsilon = static_cast<float>(options_.epsilon);
    rule.gradient_scale = static_cast<float>(1.0 / static_cast<double>(users));
    rule.decay = static_cast<float>(2.0 * weight_decay_);
    rule.clip_norm = static_cast<float>(clip_norm_);
    return rule;
  }

  /// Applies the rule in `step` to the flat elements of `range`, except the tensors `done`, which are updated
  /// already. The moments of element i have index i + moments_offset.
  void update(Range range, std::int64_t moments_offset, const device::Buffer& gradients,
              device::Parameters& parameters, const device::StepState& step, std::span<const int> done = {}) {
    const auto& tensors = parameters.layout().tensors;
    std::vector<device::UpdateRange> ranges;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Range part{std::max(range.begin, tensors[i].range.begin),
                       std::min(range.end, tensors[i].range.end)};
      const bool already_updated = std::ranges::find(done, static_cast<int>(i)) != done.end();
      if (!already_updated && part.size() > 0) ranges.push_back({part, tensors[i].spec.decays});
    }
    device_.update(ranges, gradients, {first_moment_, second_moment_, moments_offset}, parameters, step);
  }

  device::Buffer& first_moment() { return first_moment_; }
  device::Buffer& second_moment() { return second_moment_; }
  /// Returns the moments `which`.
  device::Buffer& moment(StateTensor which) {
    return which == StateTensor::first_moment ? first_moment_ : second_moment_;
  }

 private:
  config::OptimizerOptions options_;
  double weight_decay_;
  double clip_norm_;
  device::Device& device_;
  device::Buffer first_moment_;
  device::Buffer second_moment_;
};

/// The parameter group of a step (TrainableModel::parameter_groups), which has its own count of updates.
struct ParameterGroup {
  int index = 0;
  std::int64_t updates = 0;  ///< updates of it before the step, skipped ones included
};

/// How ranks combine their gradients and update the weights. All ranks must call the functions in the same
/// order.
class Strategy {
 public:
  virtual ~Strategy() = default;
  /// Runs one step with `params` on `parameter_group`; the strategy overwrites params.rule. `batch_users` is
  /// the number of users of the batch over all ranks. May return before the device has finished. Collective.
  virtual void step(device::StepParams params, std::int64_t batch_users, ParameterGroup parameter_group) = 0;
  /// Returns the model with the weights of all updates so far. The first call after a step is collective.
  virtual models::TrainableModel& synced_model() = 0;
  /// Gathers fp32 master weights, a moment or the prior on every rank, and returns them in the flat layout.
  /// May overwrite the gradient. Valid until the next step or gather. Collective.
  virtual const device::Buffer& gather_state(StateTensor state) = 0;
  /// Overwrites weights, a moment or the prior with the values that `fill` writes in the flat layout, which
  /// must be equal on all ranks. May overwrite the gradient. Collective.
  virtual void load_state(StateTensor state, const std::function<void(device::Buffer&)>& fill) = 0;
  /// Rounds the weights to bf16 if every update leaves rounded weights, because it communicates them in bf16.
  virtual void round_weights() = 0;
  /// Makes the next step check whether device memory was reallocated.
  virtual void memory_changed() {}
  /// Switches captured graphs on or off; timed steps do not use them.
  virtual void enable_graphs(bool /*on*/) {}
  /// Returns is_worker, overlaps, update_bytes and comm_volume of this rank.
  virtual TrainingFacts facts() const = 0;
  /// Returns the staleness of asynchronous updates since the last call, equal on all ranks; nullopt if
  /// updates are not asynchronous. Collective.
  virtual std::optional<Staleness> take_staleness() { return std::nullopt; }
};

/// Makes the strategy distributed.strategy: allreduce. All references must outlive it.
std::unique_ptr<Strategy> make_all_reduce(const config::TrainingConfig& options, const comm::RankGrid& grid,
                                          TrainingData& data, models::StepTimer& timer);
/// Makes the strategy distributed.strategy: parameter_server (Li et al., OSDI 2014). Its messages are sent
/// from host memory: throws std::logic_error unless the device is a CPU. All references must outlive it.
/// Collective.
std::unique_ptr<Strategy> make_parameter_server(const config::TrainingConfig& options,
                                                const comm::RankGrid& grid, TrainingData& data,
                                                models::StepTimer& timer);

/// A copy of the state in buffers of the device, or in host memory as tensors without padding.
class DeviceStateCopy final : public StateCopy {
 public:
  /// Makes memory for `states`. All references must outlive this object.
  DeviceStateCopy(device::Device& device, device::Exporter& exporter, const device::ParameterLayout& layout,
                  std::span<const StateTensor> states, bool on_device)
      : device_(device), exporter_(exporter), layout_(layout) {
    for (const StateTensor state : states) {
      if (on_device) {
        buffers_.push_back(device.make_buffer(layout.size));
        continue;
      }
      for (const device::TensorLayout& tensor : layout.tensors)
        hosted_[state].emplace_back(static_cast<std::size_t>(tensor.spec.rows * tensor.spec.columns));
    }
  }

  void take(StateTensor state, const device::Buffer& flat) {
    if (!buffers_.empty()) return device_.copy(flat, {0, layout_.size}, buffer(state), 0);
    for (std::size_t i = 0; i < layout_.tensors.size(); ++i) {
      const Range rows{0, layout_.tensors[i].spec.rows};
      device_.export_rows(layout_, static_cast<int>(i), rows, flat, hosted_[state][i]);
    }
  }

  void read_rows(StateTensor state, int tensor, Range rows, std::span<float> to) override {
    if (!buffers_.empty()) return exporter_.export_rows(layout_, tensor, rows, buffer(state), to);
    const std::vector<float>& values = hosted_.at(state)[tensor];
    std::copy_n(values.begin() + rows.begin * layout_.tensors[tensor].spec.columns, to.size(), to.begin());
  }

 private:
  device::Buffer& buffer(StateTensor state) { return buffers_[static_cast<std::size_t>(state)]; }

  device::Device& device_;
  device::Exporter& exporter_;
  const device::ParameterLayout& layout_;
  std::vector<device::Buffer> buffers_;                            // one per state
  std::map<StateTensor, std::vector<std::vector<float>>> hosted_;  // instead of them
};

}  // namespace vaecf::training
