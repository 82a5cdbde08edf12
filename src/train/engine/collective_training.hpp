#pragma once

#include <vaecf/train/engine.hpp>
#include <vaecf/train/session.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "train/engine/training_data.hpp"
#include "train/step/step.hpp"

namespace vaecf::train {

/// Training by collectives: every rank computes gradients, and the ranks sum them.
template <class Device>
class CollectiveTraining {
 public:
  CollectiveTraining(Device& device, const TrainingSetup& setup)
      : data(device, setup, comm::BucketPlan::unit * setup.communicator.size()),
        options_(setup.options),
        communicator_(setup.communicator),
        optimizer_(setup.options, setup.communicator, device, data.network),
        graphs_(device, setup.communicator),
        step_(data, optimizer_, graphs_) {}

  void start_epoch(const data::EpochRows& batches) {
    data.start_epoch(batches);
    graphs_.memory_may_have_moved();
  }

  void step(backend::StepNumbers numbers, std::int64_t batch_users) {
    numbers.rule = optimizer_.rule(numbers.step, batch_users);
    // A batch of so many users that starts at this virtual shard gives each rank the same number of them
    // every time.
    const std::int64_t begin = communicator_.size() == 1
                                   ? 0
                                   : numbers.batch * options_.train.batch_size % options_.data.virtual_shards;
    step_.run(numbers, data.items.users(numbers.batch), {begin, batch_users});
  }

  model::Network<Device>& network() {
    graphs_.memory_may_have_moved();
    return data.network;
  }
  const typename Device::Buffer& flat(FlatState state) {
    graphs_.memory_may_have_moved();
    return optimizer_.flat(state);
  }
  void set_flat(FlatState state, const std::function<void(typename Device::Buffer&)>& fill) {
    optimizer_.set_flat(state, fill);
  }
  void round_weights() { optimizer_.round_weights(); }

  model::StepClock<Device>& clock() { return step_.clock; }
  void pause_graphs(bool on) { graphs_.pause(on); }

  TrainingFacts facts() const {
    const comm::Reducer<Device>& reducer = optimizer_.reducer();
    const double link = reducer.bytes_per_rank();
    return {.overlaps = reducer.mode().overlap,
            .update_bytes = update_bytes(),
            .wire = {.total = communicator_.size() * link, .worker_out = link, .worker_in = link}};
  }
  std::optional<Staleness> take_staleness() { return std::nullopt; }

  TrainingData<Device> data;

 private:
  double update_bytes() const {
    const auto parameters = static_cast<double>(data.network.layout().parameter_count());
    const double own = optimizer_.reducer().mode().sharded ? parameters / communicator_.size() : parameters;
    const backend::Precision precision = data.device.precision();
    const bool copies = precision == backend::Precision::bf16 || precision == backend::Precision::fp16;
    constexpr double in_and_out = 2.0 * sizeof(float);
    return own * 3.0 * in_and_out + parameters * (optimizer_.fuses() ? 0.0 : in_and_out) +
           (copies ? 2.0 * parameters : 0.0);
  }

  const SessionOptions& options_;
  comm::Communicator& communicator_;
  OptimizerState<Device> optimizer_;
  StepGraphs<Device> graphs_;
  Step<Device> step_;
};

}  // namespace vaecf::train
