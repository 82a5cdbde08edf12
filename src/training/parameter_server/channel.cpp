#include "training/parameter_server/channel.hpp"

#include <vaecf/comm/communicator.hpp>

#include <numeric>

namespace vaecf::training {

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
  for (int s = 0; s < roles_.servers; ++s) {
    sends.push_back({roles_.rank_of_server(s), std::as_bytes(std::span(&header, 1))});
  }
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
  for (std::size_t w = 0; w < workers.size(); ++w) {
    recvs.push_back({workers[w], std::as_writable_bytes(std::span(&headers[w], 1))});
  }
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

}  // namespace vaecf::training
