// The training step with distributed.strategy: parameter_server: workers send their gradients to the servers,
// which update their shards of the weights and send them back (Li et al., OSDI 2014). Workers have no
// moments, servers compute no gradients.

#include <array>
#include <stdexcept>

#include "training/bucket_plan.hpp"
#include "training/gradient_exchange.hpp"
#include "training/optimizer.hpp"
#include "training/parameter_server/server.hpp"
#include "training/strategy.hpp"
#include "training/training_data.hpp"

namespace vaecf::training {
namespace {

/// After a step, the model of a worker contains the weights of its next step. The model of a server is
/// outdated until synced_model() or gather_state() is called.
class ParameterServerTraining final : public Strategy {
 public:
  ParameterServerTraining(const Options& options, const comm::RankGrid& grid, TrainingData& data,
                          device::StepTimer& timer)
      : device_(data.device),
        data_(data),
        weights_(data.model->parameters()),
        communicator_(grid.world()),
        timer_(timer),
        channel_(communicator_, device_,
                 BucketPlan(data_.model->parameter_groups(),
                            bucket_elements(options.distributed, communicator_), options.distributed.servers),
                 comm::Roles(options.distributed, communicator_.size()),
                 options.distributed.comm_dtype == comm::CommDtype::bf16),
        optimizer_(options.optimizer, options.train.weight_decay, device_,
                   channel_.roles().is_worker(communicator_.rank()) ? 0 : channel_.plan().shard_size(),
                   options.train.clip_gradient_norm),
        gradients_(device_.make_buffer(channel_.plan().padded_size())),
        asynchronous_(options.distributed.updates == comm::ServerUpdates::asynchronous),
        clips_(options.train.clip_gradient_norm > 0.0),
        own_gradient_(device_.make_step_state()) {
    if (device_.facts().kind != device::DeviceKind::cpu)
      throw std::logic_error("a parameter server sends and receives in the memory of a CPU");
    if (channel_.roles().is_worker(communicator_.rank())) return;
    server_ = std::make_unique<ParameterServer>(options, communicator_, device_, data_.model->layout(),
                                                channel_, optimizer_);
    pack(weights_.master(), server_->masters());
  }

  void step(device::StepParams params, std::int64_t batch_users, ParameterGroup parameter_group) override {
    timer_.start();
    params.rule = optimizer_.rule(parameter_group.updates, batch_users);
    device_.begin_step(params, *data_.state);
    synced_ = false;
    if (server_) {
      server_->serve(params.step, *data_.state, timer_);
    } else {
      const std::int64_t users = data_.items.users(params.batch);
      const device::GradientReady not_reported;
      data_.model->forward_backward(data_.gather(users), {weights_, *data_.state, gradients_, not_reported},
                                    parameter_group.index, timer_);
      // The gradient is sent after the backward pass, without overlap.
      channel_.push_and_pull({params.step, users, squared_gradient_norm(params.step, users)}, gradients_,
                             weights_);
      timer_.end_phase(device::StepPhase::reduce);
    }
    device_.end_step(*data_.state);
    timer_.end_phase(device::StepPhase::update);
  }

  models::TrainableModel& synced_model() override {
    if (synced_) return *data_.model;
    channel_.all_gather_shards(server_ ? &server_->masters() : nullptr, weights_.master());
    data_.model->finish_writing();
    round_weights();
    synced_ = true;
    return *data_.model;
  }

  const device::Buffer& gather_state(StateTensor state) override {
    synced_model();
    if (state == StateTensor::weights && !channel_.bf16_comm()) return weights_.master();
    const device::Buffer* shard = nullptr;
    if (server_) shard = state == StateTensor::weights ? &server_->masters() : &optimizer_.moment(state);
    // The gradient buffer is unused between steps.
    channel_.all_gather_shards(shard, gradients_);
    return gradients_;
  }

  void load_state(StateTensor state, const std::function<void(device::Buffer&)>& fill) override {
    if (state == StateTensor::weights) {
      fill(weights_.master());
      data_.model->finish_writing();
      synced_ = true;
      if (server_) pack(weights_.master(), server_->masters());
      return;
    }
    device_.fill(gradients_, 0.0F);
    fill(gradients_);
    if (server_) pack(gradients_, optimizer_.moment(state));
  }

  void round_weights() override {
    if (channel_.bf16_comm()) round_to_bf16_comm(device_, weights_, gradients_.size());
  }

  TrainingFacts facts() const override {
    return {.is_worker = !server_, .update_bytes = update_bytes(), .comm_volume = comm_volume()};
  }

  std::optional<Staleness> take_staleness() override {
    if (!asynchronous_) return std::nullopt;
    const Staleness mine = server_ ? server_->take_staleness() : Staleness{};
    std::array<std::int64_t, 2> most = {mine.max_lead, mine.max_age};
    std::array<double, 2> sums = {static_cast<double>(mine.updates), mine.mean_age};
    communicator_.all_reduce(std::span<std::int64_t>(most), comm::Reduction::max);
    communicator_.all_reduce(std::span<double>(sums));
    // Every server receives every gradient, so the sum counts each one once per server.
    return Staleness{static_cast<std::int64_t>(sums[0]) / channel_.roles().servers, most[0], most[1],
                     sums[1] / std::max(1.0, sums[0])};
  }

 private:
  /// Returns the scaled sum of squares of this worker's gradient; 0 unless updates are asynchronous and
  /// clipped.
  double squared_gradient_norm(std::int64_t step, std::int64_t users) {
    if (!clips_ || !asynchronous_ || users == 0) return 0.0;
    device_.begin_step({.rule = optimizer_.rule(step, users)}, *own_gradient_);
    device_.accumulate_gradient_stats(gradients_, {0, data_.model->layout().size}, *own_gradient_);
    return device_.gradient_stats(*own_gradient_).data()[1];
  }
  void pack(const device::Buffer& flat, device::Buffer& shard) {
    const int server = channel_.roles().server_index(communicator_.rank());
    pack_shard(device_, channel_.plan(), server, flat, shard);
  }
  double update_bytes() const {
    const device::ParameterLayout& layout = weights_.layout();
    const auto parameters = static_cast<double>(layout.parameter_count());
    constexpr double in_and_out = 2.0 * sizeof(float);
    if (server_) return parameters / channel_.roles().servers * 4.0 * in_and_out;
    const auto copies =
        static_cast<double>(weights_.copied_count({0, static_cast<std::int64_t>(layout.tensors.size())}));
    return parameters * in_and_out + copies * sizeof(std::uint16_t);
  }
  CommVolume comm_volume() const {
    const comm::Roles& roles = channel_.roles();
    const auto push = static_cast<double>(channel_.push_bytes());
    const auto pull = static_cast<double>(channel_.pull_bytes());
    return {.total = roles.workers * roles.servers * (push + pull),
            .worker_out = roles.servers * push,
            .worker_in = roles.servers * pull,
            .server_out = roles.workers * pull,
            .server_in = roles.workers * push};
  }

  device::Device& device_;
  TrainingData& data_;
  device::Parameters& weights_;
  comm::Communicator& communicator_;
  device::StepTimer& timer_;
  ParameterServerChannel channel_;
  Optimizer optimizer_;
  device::Buffer gradients_;
  bool asynchronous_;
  bool clips_;
  std::unique_ptr<ParameterServer> server_;          // null on workers
  std::unique_ptr<device::StepState> own_gradient_;  // state for the norm of this worker's gradient
  bool synced_ = true;                               // the model contains all updates on all ranks
};

}  // namespace

std::unique_ptr<Strategy> make_parameter_server(const Options& options, const comm::RankGrid& grid,
                                                TrainingData& data, device::StepTimer& timer) {
  return std::make_unique<ParameterServerTraining>(options, grid, data, timer);
}

}  // namespace vaecf::training
