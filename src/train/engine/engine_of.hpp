#pragma once

#include <vaecf/device/cpu/device.hpp>
#include <vaecf/model/make_model.hpp>
#include <vaecf/train/engine.hpp>
#include <vaecf/train/slice_problem.hpp>
#include <vaecf/train/train.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "train/engine/matrix_scorer.hpp"
#include "train/engine/training_data.hpp"
#include "train/parameter_server/training.hpp"
#include "train/step/step.hpp"

namespace vaecf::train {

/// Training with `distributed.strategy: allreduce`: every rank computes gradients, and collectives sum them.
/// The functions have the contracts of Engine's functions of the same names.
template <class Device>
class AllReduceTraining {
 public:
  AllReduceTraining(Device& device, const TrainingSetup& setup)
      : data(device, setup, comm::BucketPlan::alignment_elements * setup.grid.world().size()),
        options_(setup.options),
        grid_(setup.grid),
        optimizer_(setup.options, setup.grid, device, *data.model),
        graphs_(device, setup.grid.world()),
        step_(data, optimizer_, graphs_) {}

  void start_pass() {
    data.start_pass();
    graphs_.invalidate();
  }

  void step(device::StepParams params, std::int64_t batch_users, UpdatedGroup group) {
    params.rule = optimizer_.rule(group.updates, batch_users);
    // The first virtual shard of a batch and the batch's size determine the number of users of every group.
    const std::int64_t begin =
        grid_.groups() == 1 ? 0 : params.batch * options_.train.batch_size % options_.data.virtual_shards;
    step_.run(params, data.items.users(params.batch), group.index, {group.index, begin, batch_users});
  }

  model::TrainableModel<Device>& model() {
    graphs_.invalidate();
    return *data.model;
  }
  const typename Device::Buffer& gather_state(StateTensor state) {
    graphs_.invalidate();
    return optimizer_.gather_state(state);
  }
  void load_state(StateTensor state, const std::function<void(typename Device::Buffer&)>& fill) {
    optimizer_.load_state(state, fill);
  }
  void round_weights() { optimizer_.round_weights(); }

  double sum_of_squares() {
    const double slices = model().sum_of_squares(true);
    return grid_.group_ranks().all_reduce(slices) + model().sum_of_squares(false);
  }

  model::StepTimer<Device>& timer() { return step_.timer; }
  void enable_graphs(bool on) { graphs_.set_enabled(on); }

  TrainingFacts facts() const {
    const comm::SliceProblem problem =
        slice_problem(options_, data.model->tensors(), data.model->items(), grid_.world());
    const double exchanged = comm::slice_traffic(problem, grid_.slices()).activations;
    const double sent =
        exchanged + mean_of_groups([&](int group) { return optimizer_.bytes_per_rank(group); });
    return {.overlaps = optimizer_.overlaps(),
            .update_bytes = mean_of_groups([&](int group) { return update_bytes(group); }),
            .comm_volume = {.total = grid_.world().size() * sent,
                            .worker_out = sent,
                            .worker_in = sent,
                            .exchanged = exchanged}};
  }
  std::optional<Staleness> take_staleness() { return std::nullopt; }

  TrainingData<Device> data;

 private:
  /// Returns the mean of value(group) over the steps of an epoch.
  template <class Value>
  double mean_of_groups(const Value& value) const {
    const std::vector<int> passes = model::passes_of_epoch(options_.model);
    double sum = 0.0;
    for (const int group : passes) sum += value(group);
    return sum / static_cast<double>(passes.size());
  }
  /// Returns TrainingFacts::update_bytes of a step on update group `group`.
  double update_bytes(int group) const {
    const device::ParameterLayout& layout = data.model->layout();
    const Range tensors = layout.tensors_in(data.model->update_groups()[static_cast<std::size_t>(group)]);
    const auto parameters = static_cast<double>(layout.parameter_count(tensors));
    const double updated =
        optimizer_.reducer().mode().sharded ? parameters / grid_.world().size() : parameters;
    const device::Precision precision = data.device.precision();
    const bool copies = precision == device::Precision::bf16 || precision == device::Precision::fp16;
    double gradients = parameters;  // elements
    for (const int tensor : data.model->fused_tensors()) {
      const device::TensorSpec& weight = layout.tensors[static_cast<std::size_t>(tensor)].spec;
      const bool in_group = tensor >= tensors.begin && tensor < tensors.end;
      const bool vector = weight.kind == device::TensorKind::output_bias;
      if (in_group && !vector && optimizer_.fuses_updates() &&
          !data.device.stores_fused_gradient(weight.kind))
        gradients -= static_cast<double>(weight.rows * weight.columns);
    }
    constexpr double read_and_written = 2.0 * sizeof(float);
    return (updated * 3.0 + gradients) * read_and_written + (copies ? 2.0 * parameters : 0.0);
  }

  const TrainingConfig& options_;
  const comm::RankGrid& grid_;
  OptimizerState<Device> optimizer_;
  StepGraphs<Device> graphs_;
  Step<Device> step_;
};

/// A copy of the state in buffers of the device, or in host memory as tensors without padding.
template <class Device>
class StateCopyOf final : public StateCopy {
 public:
  using Buffer = typename Device::Buffer;

  /// Copies `states`. All references must outlive this object.
  StateCopyOf(Device& device, typename Device::Exporter& exporter, const device::ParameterLayout& layout,
              std::span<const StateTensor> states, bool on_device)
      : device_(device), exporter_(exporter), layout_(layout) {
    for (const StateTensor state : states) {
      if (on_device) {
        buffers_.push_back(device.make_buffer(layout.size));
        continue;
      }
      for (const device::TensorLayout& tensor : layout.tensors) {
        hosted_[state].emplace_back(static_cast<std::size_t>(tensor.spec.rows * tensor.spec.columns));
      }
    }
  }

  void take(StateTensor state, const Buffer& flat) {
    if (!buffers_.empty()) return device_.copy(flat, {0, layout_.size}, buffer(state), 0);
    for (std::size_t i = 0; i < layout_.tensors.size(); ++i) {
      const Range rows{0, layout_.tensors[i].spec.rows};
      device_.export_rows(layout_, static_cast<int>(i), rows, flat, hosted_[state][i]);
    }
  }
  void read_rows(StateTensor state, int tensor, Range rows, std::span<float> to) override {
    if (!buffers_.empty()) return exporter_.export_rows(layout_, tensor, rows, buffer(state), to);
    const std::vector<float>& values = hosted_.at(state)[static_cast<std::size_t>(tensor)];
    std::copy_n(values.begin() + rows.begin * layout_.tensors[static_cast<std::size_t>(tensor)].spec.columns,
                to.size(), to.begin());
  }

 private:
  Buffer& buffer(StateTensor state) { return *buffers_[static_cast<std::size_t>(state)]; }

  Device& device_;
  typename Device::Exporter& exporter_;
  const device::ParameterLayout& layout_;
  std::vector<std::unique_ptr<Buffer>> buffers_;                   // one per state
  std::map<StateTensor, std::vector<std::vector<float>>> hosted_;  // instead of them
};

/// The training strategies that a device supports. A parameter server sends messages from host memory, so it
/// supports CPUs only.
template <class Device>
using TrainingOn = std::conditional_t<std::is_same_v<Device, cpu::Device>,
                                      std::variant<AllReduceTraining<Device>, ParameterServerTraining>,
                                      std::variant<AllReduceTraining<Device>>>;

/// The Engine of one device type. The code that it calls is compiled for that type, without virtual
/// functions. The functions declared after start_training() may be called only until end_training().
template <class Device>
class EngineOf : public Engine {
 public:
  explicit EngineOf(std::unique_ptr<Device> device) : device_(std::move(device)) {}

  DeviceFacts facts() const override {
    return {device_->description(),  *parse_enum<device::DeviceChoice>(device_->device()),
            device_->device_id(),    device_->precision(),
            device_->threads(),      device_->peak_device_bytes(),
            Device::evaluation_batch};
  }
  double measure(Rate rate, std::int64_t max_bytes) override {
    return rate == Rate::gemm ? device_->measure_gemm_rate(max_bytes)
                              : device_->measure_memory_rate(max_bytes);
  }
  std::vector<comm::AllReduceTiming> measure_all_reduce(comm::Communicator& communicator,
                                                        std::span<const std::int64_t> sizes,
                                                        double budget) override {
    return comm::measure_all_reduce(communicator, *device_, sizes, budget);
  }
  std::unique_ptr<model::Model> make_model(const model::ModelOptions& options, model::InputDims inputs,
                                           std::int64_t max_users) override {
    return model::make_trainable_model(options, inputs, *device_, max_users);
  }

  std::optional<cpu::Inversion> invert_on_gpu(cpu::SpdInverse& matrix, const cpu::Interactions& x,
                                              comm::Communicator& ranks,
                                              const cpu::SpdInverse::Progress& progress) override {
    constexpr bool inverts = requires(Device & device) {
      device.has_memory_to_invert(matrix, x);
    };
    bool fits = false;
    if constexpr (inverts) fits = device_->has_memory_to_invert(matrix, x);
    if (ranks.all_reduce(std::int64_t{fits}, comm::Reduction::min) == 0) return std::nullopt;
    const auto broadcast = [&](std::span<float> values, int root) { ranks.broadcast(values, root); };
    if constexpr (inverts) return device_->invert(matrix, x, broadcast, progress);
    return std::nullopt;
  }

  std::unique_ptr<model::Scorer> make_matrix_scorer(
      std::int64_t items,
      const std::function<void(std::int64_t begin, std::int64_t end, std::span<float> out)>& read_rows)
      override {
    if constexpr (requires { typename Device::ItemMatrix; }) {
      if (auto matrix = device_->make_item_matrix(items, read_rows))
        return std::make_unique<MatrixScorer<Device>>(*device_, std::move(matrix));
    }
    return nullptr;
  }

  void start_training(const TrainingSetup& setup) override {
    if (training_) throw std::logic_error("Engine::start_training: a training is already active");
    if constexpr (std::is_same_v<Device, cpu::Device>) {
      if (setup.options.distributed.strategy == comm::Strategy::parameter_server) {
        training_ = std::make_unique<TrainingOn<Device>>(std::in_place_index<1>, *device_, setup);
        return;
      }
    }
    training_ = std::make_unique<TrainingOn<Device>>(std::in_place_index<0>, *device_, setup);
  }
  void end_training() noexcept override { training_.reset(); }
  TrainingFacts training() const override {
    return with([](auto& training) {
      TrainingFacts facts = training.facts();
      facts.data_bytes =
          training.data.items.bytes() + (training.data.features ? training.data.features->bytes() : 0);
      facts.data_description = training.data.items.held().description();
      facts.flat_elements = training.data.model->layout().size;
      facts.prior_tensors = training.data.model->layout().tensors_in(training.data.model->prior_elements());
      return facts;
    });
  }
  model::Model& model() override {
    return with([](auto& training) -> model::Model& { return training.model(); });
  }
  double sum_of_squares() override {
    return with([](auto& training) { return training.sum_of_squares(); });
  }
  void upload_pass(const data::EpochRows& batches) override {
    with([&](auto& training) { training.data.upload_pass(batches); });
  }
  void start_pass() override {
    with([](auto& training) { training.start_pass(); });
  }
  void start_epoch() override {
    with([](auto& training) { training.data.start_epoch(); });
  }
  std::optional<device::LossSums> step(device::StepParams params, std::int64_t batch_users,
                                       UpdatedGroup group) override {
    return with([&](auto& training) {
      training.step(params, batch_users, group);
      return device_->poll_losses(*training.data.state);
    });
  }
  StepSums sums() override {
    return with([&](auto& training) -> StepSums {
      return {device_->read_losses(*training.data.state), device_->loss_scale(*training.data.state)};
    });
  }
  void set_sums(const StepSums& sums) override {
    with([&](auto& training) {
      device_->set_losses(sums.losses, *training.data.state);
      device_->set_loss_scale(sums.scale, *training.data.state);
    });
  }
  std::unique_ptr<StateCopy> make_state_copy(bool spare_only) override {
    return with([&](auto& training) -> std::unique_ptr<StateCopy> {
      const device::ParameterLayout& layout = training.data.model->layout();
      const auto bytes =
          static_cast<std::int64_t>(state_tensors(training).size() * sizeof(float)) * layout.size;
      const bool fits = bytes <= device_->spare_bytes();
      if (spare_only && !fits) return nullptr;
      if (!exporter_) exporter_ = device_->make_exporter();
      return std::make_unique<StateCopyOf<Device>>(*device_, *exporter_, layout, state_tensors(training),
                                                   fits);
    });
  }
  void copy_state(StateCopy* copy) override {
    with([&](auto& training) {
      for (const StateTensor state : state_tensors(training)) {
        const auto& flat = training.gather_state(state);
        if (copy != nullptr) static_cast<StateCopyOf<Device>&>(*copy).take(state, flat);
      }
      if (copy != nullptr) exporter_->wait_event(device_->record_event());
    });
  }
  void read_state_rows(StateTensor state, int tensor, Range rows, std::span<float> to) override {
    with([&](auto& training) {
      const auto& flat = training.gather_state(state);
      device_->export_rows(training.data.model->layout(), tensor, rows, flat, to);
    });
  }
  void write_state(StateTensor state, bool round_weights,
                   const std::function<void(const WriteRows&)>& fill) override {
    with([&](auto& training) {
      training.load_state(state, [&](typename Device::Buffer& flat) {
        fill([&](int tensor, Range rows, std::span<const float> values) {
          device_->import_rows(training.data.model->layout(), tensor, rows, values, flat);
        });
      });
      if (state == StateTensor::weights && round_weights) training.round_weights();
    });
  }
  void enable_timing(bool on) override {
    with([&](auto& training) {
      training.enable_graphs(!on);
      training.timer() = model::StepTimer<Device>(*device_, on);
    });
  }
  std::vector<model::PhaseInterval> take_phase_intervals() override {
    return with([](auto& training) { return training.timer().take_intervals(); });
  }
  std::optional<Staleness> take_staleness() override {
    return with([](auto& training) { return training.take_staleness(); });
  }

 private:
  /// Returns the state of a training: all_state_tensors, without the prior if the model has none.
  template <class Training>
  static std::span<const StateTensor> state_tensors(Training& training) {
    const std::span all(all_state_tensors);
    return training.data.model->prior() == nullptr ? all.first(all.size() - 1) : all;
  }

  /// Returns call(training) for the active training of either strategy.
  template <class Call>
  decltype(auto) with(Call&& call) const {
    return std::visit(std::forward<Call>(call), *training_);
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<typename Device::Exporter> exporter_;
  std::unique_ptr<TrainingOn<Device>> training_;
};

}  // namespace vaecf::train
