#include "training/state.hpp"

namespace vaecf::training {

const device::Buffer& State::gather(StateTensor state) {
  device::Buffer& gradients = exchange_.gradients();  // unused between steps
  if (state == StateTensor::prior) {
    const Range elements = model_.prior_elements();
    device_.copy(model_.prior()->master(), {0, elements.size()}, gradients, elements.begin);
    return gradients;
  }
  const device::Buffer* packed =
      state == StateTensor::weights ? exchange_.master_shard() : &optimizer_.moment(state);
  if (packed == nullptr) return model_.parameters().master();
  if (!exchange_.mode().sharded) return *packed;
  exchange_.all_gather_shards(*packed, gradients);
  return gradients;
}

void State::load(StateTensor state, const std::function<void(device::Buffer&)>& fill) {
  if (state == StateTensor::weights) {
    fill(model_.parameters().master());
    model_.finish_writing();
    return exchange_.save_master_shard();
  }
  if (state != StateTensor::prior && !exchange_.mode().sharded) return fill(optimizer_.moment(state));
  device::Buffer& gradients = exchange_.gradients();
  device_.fill(gradients, 0.0F);
  fill(gradients);
  if (state != StateTensor::prior) return exchange_.pack(gradients, optimizer_.moment(state));
  device::Parameters& prior = *model_.prior();
  device_.copy(gradients, model_.prior_elements(), prior.master(), 0);
  device_.refresh_copies(prior, {0, prior.layout().size});
}

}  // namespace vaecf::training
