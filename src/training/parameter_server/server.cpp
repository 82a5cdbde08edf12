#include "training/parameter_server/server.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/comm/ordered_sum.hpp>

#include <numeric>

namespace vaecf::training {
namespace {

void require_step(int worker, const PushHeader& header, std::int64_t step) {
  if (header.step == step) return;
  throw RunError(
      format("parameter server: rank {} sent the gradient of step {}, but that of step {} was expected",
             worker, header.step, step));
}

device::Parameters make_shard(device::Device& device, std::int64_t elements) {
  const device::TensorSpec shard{"shard", 1, elements, device::TensorKind::matrix, true};
  return device.make_parameters(device.plan_parameters({&shard, 1}), elements);
}

}  // namespace

ParameterServerChannel::ParameterServerChannel(comm::Communicator& communicator, device::Device& device,
                                               const BucketPlan& plan, comm::Roles roles, bool bf16_comm)
    : communicator_(communicator),
      messages_(comm::messages_of(communicator)),
      device_(device),
      plan_(plan),
      roles_(roles),
      bf16_comm_(bf16_comm) {
  const bool worker = roles.is_worker(communicator.rank());
  const std::int64_t terms = worker ? 0 : roles.workers * plan.shard_range(0).size();
  if (!worker) terms_ = device.make_buffer(terms);
  if (!bf16_comm) return;
  bf16_out_ = device.make_bf16_buffer(worker ? plan.padded_size() : plan.shard_size());
  bf16_in_ = device.make_bf16_buffer(worker ? plan.padded_size() : terms);
}

std::int64_t ParameterServerChannel::pull_bytes() const {
  const std::size_t element = bf16_comm_ ? sizeof(Bf16) : sizeof(float);
  return plan_.shard_size() * static_cast<std::int64_t>(element);
}

std::span<const std::byte> ParameterServerChannel::outgoing_bytes(const device::Buffer& buffer,
                                                                  Range range) const {
  return bf16_comm_ ? std::as_bytes(view(bf16_out_, range)) : std::as_bytes(view(buffer, range));
}

void ParameterServerChannel::push_and_pull(const PushHeader& header, const device::Buffer& gradients,
                                           device::Parameters& parameters) {
  device::Buffer& weights = parameters.master();
  const Range all{0, plan_.padded_size()};
  if (bf16_comm_) device_.cast_to_bf16(gradients, all, bf16_out_, 0);
  std::vector<comm::SendBuffer> sends;
  std::vector<comm::RecvBuffer> recvs;
  for (int s = 0; s < roles_.servers; ++s)
    sends.push_back({roles_.rank_of_server(s), std::as_bytes(std::span(&header, 1))});
  for (std::int64_t b = 0; b < plan_.buckets(); ++b) {
    for (int s = 0; s < roles_.servers; ++s) {
      const Range part = plan_.part(b, s);
      sends.push_back({roles_.rank_of_server(s), outgoing_bytes(gradients, part)});
      recvs.push_back({roles_.rank_of_server(s), bf16_comm_ ? std::as_writable_bytes(view(bf16_in_, part))
                                                            : std::as_writable_bytes(view(weights, part))});
    }
  }
  messages_->send_recv(sends, recvs);
  if (bf16_comm_) device_.cast_to_fp32(bf16_in_, all, weights, 0);
  device_.refresh_copies(parameters, {0, parameters.layout().size});
}

void ParameterServerChannel::receive(std::span<const comm::RecvBuffer> recvs) {
  messages_->send_recv(pending_replies_, recvs);
  pending_replies_.clear();
}

std::vector<PushHeader> ParameterServerChannel::receive_headers(std::span<const int> workers) {
  std::vector<PushHeader> headers(workers.size());
  std::vector<comm::RecvBuffer> recvs;
  for (std::size_t w = 0; w < workers.size(); ++w)
    recvs.push_back({workers[w], std::as_writable_bytes(std::span(&headers[w], 1))});
  receive(recvs);
  return headers;
}

void ParameterServerChannel::receive_sum(std::int64_t bucket, std::span<const int> workers,
                                         device::Buffer& shard) {
  const Range packed = plan_.shard_range(bucket);
  const bool direct = workers.size() == 1 && !bf16_comm_;
  std::vector<comm::RecvBuffer> recvs;
  std::vector<const float*> terms;
  Range slot{0, packed.size()};
  for (const int worker : workers) {
    recvs.push_back(
        {worker, bf16_comm_ ? std::as_writable_bytes(view(bf16_in_, slot))
                            : std::as_writable_bytes(direct ? view(shard, packed) : view(terms_, slot))});
    terms.push_back(terms_.data() + slot.begin);
    slot = {slot.end, slot.end + packed.size()};
  }
  receive(recvs);
  if (direct) return;
  if (bf16_comm_) device_.cast_to_fp32(bf16_in_, {0, slot.begin}, terms_, 0);
  comm::ordered_sum<float>(terms, packed.size(), shard.data() + packed.begin);
}

void ParameterServerChannel::send_weights(std::int64_t bucket, const device::Buffer& masters,
                                          std::span<const int> workers) {
  const Range packed = plan_.shard_range(bucket);
  if (bf16_comm_) device_.cast_to_bf16(masters, packed, bf16_out_, packed.begin);
  for (const int worker : workers) pending_replies_.push_back({worker, outgoing_bytes(masters, packed)});
}

void ParameterServerChannel::flush() {
  receive({});
}

void ParameterServerChannel::all_reduce_servers(float& value) {
  std::vector<float> values(roles_.servers, value);
  const int mine = roles_.server_index(communicator_.rank());
  std::vector<comm::SendBuffer> sends;
  std::vector<comm::RecvBuffer> recvs;
  for (int s = 0; s < roles_.servers; ++s) {
    if (s == mine) continue;
    sends.push_back({roles_.rank_of_server(s), std::as_bytes(std::span(&value, 1))});
    recvs.push_back({roles_.rank_of_server(s), std::as_writable_bytes(std::span(values).subspan(s, 1))});
  }
  messages_->send_recv(sends, recvs);
  value = std::accumulate(values.begin(), values.end(), 0.0F);
}

void ParameterServerChannel::all_gather_shards(const device::Buffer* shard, device::Buffer& flat) {
  for (std::int64_t b = 0; b < plan_.buckets(); ++b) {
    for (int s = 0; s < roles_.servers; ++s) {
      const int owner = roles_.rank_of_server(s);
      const Range part = plan_.part(b, s);
      if (owner == communicator_.rank()) device_.copy(*shard, plan_.shard_range(b), flat, part.begin);
      communicator_.broadcast(view(flat, part), owner);
    }
  }
}

ParameterServer::ParameterServer(const Options& options, comm::Communicator& communicator,
                                 device::Device& device, const device::ParameterLayout& layout,
                                 ParameterServerChannel& channel, Optimizer& optimizer)
    : device_(device),
      channel_(channel),
      optimizer_(optimizer),
      asynchronous_(options.distributed.updates == comm::ServerUpdates::asynchronous),
      clips_(options.train.clip_gradient_norm > 0.0),
      workers_(channel.roles().workers),
      layout_(layout),
      index_(channel.roles().server_index(communicator.rank())),
      masters_(make_shard(device, channel.plan().shard_size())),
      gradient_(device.make_buffer(channel.plan().shard_size())),
      one_update_(device.make_step_state()),
      staleness_controller_(channel.roles().workers, options.distributed.staleness),
      weights_version_(workers_.size()) {
  std::iota(workers_.begin(), workers_.end(), 0);
}

void ParameterServer::serve(std::int64_t step_number, device::StepState& step, device::StepTimer& timer) {
  if (asynchronous_) return serve_asynchronous(step_number, timer);
  serve_synchronous(step_number, step, timer);
}

void ParameterServer::receive_all(const std::vector<int>& workers) {
  for (std::int64_t b = 0; b < channel_.plan().buckets(); ++b) channel_.receive_sum(b, workers, gradient_);
}

void ParameterServer::update_bucket(std::int64_t bucket, const device::StepState& step) {
  const Range part = channel_.plan().part(bucket, index_);
  const std::int64_t to_shard = channel_.plan().shard_range(bucket).begin - part.begin;
  std::vector<device::UpdateRange> ranges;
  for (const device::TensorLayout& tensor : layout_.tensors) {
    const std::int64_t begin = std::max(part.begin, tensor.range.begin);
    const std::int64_t end = std::min(part.end, tensor.range.end);
    if (begin < end) ranges.push_back({{begin + to_shard, end + to_shard}, tensor.spec.decays});
  }
  device_.update(ranges, gradient_, {optimizer_.first_moment(), optimizer_.second_moment()}, masters_, step);
}

void ParameterServer::serve_synchronous(std::int64_t step_number, device::StepState& step,
                                        device::StepTimer& timer) {
  const auto headers = channel_.receive_headers(workers_);
  for (const int worker : workers_) require_step(worker, headers[worker], step_number);
  if (clips_) {
    receive_all(workers_);
    device_.accumulate_gradient_stats(gradient_, {0, gradient_.size()}, step);
    channel_.all_reduce_servers(device_.gradient_stats(step).data()[1]);
  }
  for (std::int64_t b = 0; b < channel_.plan().buckets(); ++b) {
    if (!clips_) channel_.receive_sum(b, workers_, gradient_);
    timer.end_phase(device::StepPhase::reduce);
    update_bucket(b, step);
    timer.end_phase(device::StepPhase::update);
    channel_.send_weights(b, masters(), workers_);
  }
  channel_.flush();
  timer.end_phase(device::StepPhase::reduce);
}

void ParameterServer::start(std::int64_t round) {
  staleness_controller_.start(round);
  updates_ = round * static_cast<std::int64_t>(workers_.size());
  std::ranges::fill(weights_version_, updates_);
}

void ParameterServer::serve_asynchronous(std::int64_t round, device::StepTimer& timer) {
  if (staleness_controller_.min_step() != round) start(round);  // at the start, and after a resume
  while (staleness_controller_.min_step() == round) {
    const int worker = channel_.wait_for_worker();
    const PushHeader header = channel_.receive_headers({{worker}}).front();
    require_step(worker, header, staleness_controller_.step(worker));
    receive_all({worker});
    timer.end_phase(device::StepPhase::reduce);
    apply_push(worker, header);
    timer.end_phase(device::StepPhase::update);
    send_weights(staleness_controller_.release_ready());
  }
}

void ParameterServer::apply_push(int worker, const PushHeader& header) {
  staleness_controller_.on_push(worker);
  if (header.users == 0) return;
  device_.begin_step({.rule = optimizer_.rule(updates_, header.users)}, *one_update_);
  device_.gradient_stats(*one_update_).data()[1] = static_cast<float>(header.squared_norm);
  for (std::int64_t b = 0; b < channel_.plan().buckets(); ++b) update_bucket(b, *one_update_);
  const std::int64_t age = updates_ - weights_version_[worker];
  staleness_.max_age = std::max(staleness_.max_age, age);
  staleness_.mean_age += static_cast<double>(age);
  ++staleness_.updates;
  ++updates_;
}

void ParameterServer::send_weights(const std::vector<int>& workers) {
  for (std::int64_t b = 0; b < channel_.plan().buckets(); ++b) channel_.send_weights(b, masters(), workers);
  channel_.flush();
  for (const int worker : workers) weights_version_[worker] = updates_;
}

Staleness ParameterServer::take_staleness() {
  staleness_.max_lead = staleness_controller_.take_max_lead();
  return std::exchange(staleness_, {});
}

}  // namespace vaecf::training
