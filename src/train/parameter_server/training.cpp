#include "train/parameter_server/training.hpp"

#include <vaecf/comm/reducer.hpp>

#include <algorithm>
#include <array>
#include <span>

namespace vaecf::train {

ParameterServerTraining::ParameterServerTraining(cpu::Device& device, const TrainingSetup& setup)
    : data(device, setup, comm::BucketPlan::alignment_elements * setup.options.distributed.servers),
      device_(device),
      communicator_(setup.grid.world()),
      timer_(device, false),
      channel_(communicator_, device,
               bucket_plan(setup.options, data.model->update_groups(), setup.options.distributed.servers),
               comm::Roles(setup.options.distributed, setup.grid.world().size()),
               setup.options.distributed.comm_dtype == comm::CommDtype::bf16),
      optimizer_(setup.options.optimizer, setup.options.train.weight_decay, device,
                 channel_.roles().is_worker(communicator_.rank()) ? 0 : channel_.plan().shard_size(),
                 setup.options.train.clip_gradient_norm),
      gradients_(device.make_buffer(channel_.plan().padded_size())),
      asynchronous_(setup.options.distributed.updates == comm::ServerUpdates::asynchronous),
      clips_(setup.options.train.clip_gradient_norm > 0.0),
      own_gradient_(device.make_step_state()) {
  if (channel_.roles().is_worker(communicator_.rank())) return;
  server_ = std::make_unique<ParameterServer>(setup.options, communicator_, device, data.model->layout(),
                                              channel_, optimizer_);
  pack(data.model->parameters().master(), server_->masters());
}

void ParameterServerTraining::step(device::StepParams params, std::int64_t batch_users, UpdatedGroup group) {
  timer_.start();
  params.rule = optimizer_.rule(group.updates, batch_users);
  device_.begin_step(params, *data.state);
  synced_ = false;
  if (server_) {
    server_->serve(params.step, *data.state, timer_);
  } else {
    const std::int64_t users = data.items.users(params.batch);
    data.model->forward_backward(data.gather(users), *data.state, *gradients_, {}, timer_);
    // The gradient is sent after the backward pass, without overlap.
    channel_.push_and_pull({params.step, users, squared_gradient_norm(params.step, users)}, *gradients_,
                           data.model->parameters());
    timer_.end_phase(model::StepPhase::reduce);
  }
  device_.end_step(*data.state);
  timer_.end_phase(model::StepPhase::update);
}

double ParameterServerTraining::squared_gradient_norm(std::int64_t step, std::int64_t users) {
  if (!clips_ || !asynchronous_ || users == 0) return 0.0;
  device_.begin_step({.rule = optimizer_.rule(step, users)}, *own_gradient_);
  device_.accumulate_gradient_stats(*gradients_, {0, data.model->layout().size}, *own_gradient_);
  return device_.gradient_stats(*own_gradient_).data()[1];
}

void ParameterServerTraining::pack(const cpu::FloatBuffer& flat, cpu::FloatBuffer& shard) {
  const int server = channel_.roles().server_index(communicator_.rank());
  comm::pack_shard(device_, channel_.plan(), server, flat, shard);
}

model::TrainableModel<cpu::Device>& ParameterServerTraining::model() {
  if (synced_) return *data.model;
  channel_.all_gather_shards(server_ ? &server_->masters() : nullptr, data.model->parameters().master());
  device_.refresh_weight_copies(data.model->parameters());
  round_weights();
  synced_ = true;
  return *data.model;
}

void ParameterServerTraining::round_weights() {
  if (channel_.bf16_comm()) comm::round_to_bf16_comm(device_, data.model->parameters(), gradients_->size());
}

void ParameterServerTraining::load_state(StateTensor state,
                                         const std::function<void(cpu::FloatBuffer&)>& fill) {
  if (state == StateTensor::weights) {
    fill(data.model->parameters().master());
    device_.refresh_weight_copies(data.model->parameters());
    synced_ = true;
    if (server_) pack(data.model->parameters().master(), server_->masters());
    return;
  }
  device_.fill(*gradients_, 0.0F);
  fill(*gradients_);
  if (server_) pack(*gradients_, moment(state));
}

const cpu::FloatBuffer& ParameterServerTraining::gather_state(StateTensor state) {
  model();
  if (state == StateTensor::weights && !channel_.bf16_comm()) return data.model->parameters().master();
  const cpu::FloatBuffer* shard = nullptr;
  if (server_) shard = state == StateTensor::weights ? &server_->masters() : &moment(state);
  // The gradient buffer is unused between steps.
  channel_.all_gather_shards(shard, *gradients_);
  return *gradients_;
}

TrainingFacts ParameterServerTraining::facts() const {
  return {.is_worker = !server_, .update_bytes = update_bytes(), .comm_volume = comm_volume()};
}

double ParameterServerTraining::update_bytes() const {
  const auto parameters = static_cast<double>(data.model->layout().parameter_count());
  constexpr double in_and_out = 2.0 * sizeof(float);
  if (server_) return parameters / channel_.roles().servers * 4.0 * in_and_out;
  return parameters * (in_and_out + (device_.precision() == device::Precision::bf16 ? 2.0 : 0.0));
}

CommVolume ParameterServerTraining::comm_volume() const {
  const comm::Roles& roles = channel_.roles();
  const auto push = static_cast<double>(channel_.push_bytes());
  const auto pull = static_cast<double>(channel_.pull_bytes());
  return {.total = roles.workers * roles.servers * (push + pull),
          .worker_out = roles.servers * push,
          .worker_in = roles.servers * pull,
          .server_out = roles.workers * pull,
          .server_in = roles.workers * push};
}

std::optional<Staleness> ParameterServerTraining::take_staleness() {
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

}  // namespace vaecf::train
