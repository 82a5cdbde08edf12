#pragma once

#include <vaecf/model/network.hpp>
#include <vaecf/train/engine.hpp>
#include <vaecf/train/session.hpp>

#include <memory>

#include "train/shard_rows.hpp"

namespace vaecf::train {

/// What every way to train has on its device: this rank's users, the network, and the state of the step.
template <class Device>
struct TrainingData {
  /// The buffer of weights holds a multiple of `size_multiple` elements.
  TrainingData(Device& on, const TrainingSetup& setup, std::int64_t size_multiple)
      : TrainingData(on, setup, size_multiple, model_inputs(setup.options, setup.dataset)) {}

  void start_epoch(const data::EpochRows& batches) {
    items.set_order(batches.rows, batches.begin);
    if (features) features->set_order(batches.rows, batches.begin);
    device.clear_losses(*state);
  }
  /// Gathers the batch that `state` numbers, of so many users of this rank.
  model::NetworkInput<typename Device::Batch> gather(std::int64_t users) {
    return {items.gather(*state, users), features ? &features->gather(*state, users) : nullptr};
  }

  Device& device;
  ShardRows<Device> items;
  std::unique_ptr<ShardRows<Device>> features;  ///< null if the model has none
  std::unique_ptr<typename Device::StepState> state;
  model::Network<Device> network;

 private:
  TrainingData(Device& on, const TrainingSetup& setup, std::int64_t size_multiple, model::Inputs inputs)
      : device(on),
        items(on, setup.dataset.read_rows("train", setup.rows), setup.rows.begin, inputs.items),
        features(inputs.features == 0 ? nullptr
                                      : std::make_unique<ShardRows<Device>>(
                                            on, setup.dataset.read_rows("train/features", setup.rows),
                                            setup.rows.begin, inputs.features)),
        state(on.make_step_state()),
        network(setup.options.model, inputs, on, setup.max_users, size_multiple) {
    model::initialize(network, network.shape(), setup.options.train.seed);
  }
};

}  // namespace vaecf::train
