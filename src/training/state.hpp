#pragma once

#include <vaecf/device/device.hpp>
#include <vaecf/models/trainable_model.hpp>
#include <vaecf/training/trainer.hpp>

#include <functional>

#include "training/gradient_exchange.hpp"
#include "training/optimizer.hpp"

namespace vaecf::training {

/// The weights, moments and prior of a training with all-reduce, and where they are: whole on every rank, or
/// in shards of a sharded optimizer.
class State {
 public:
  /// All references must outlive this object.
  State(device::Device& device, models::TrainableModel& model, GradientExchange& exchange,
        Optimizer& optimizer)
      : device_(device), model_(model), exchange_(exchange), optimizer_(optimizer) {}

  /// Does what Strategy::gather_state() promises. Collective.
  const device::Buffer& gather(StateTensor state);
  /// Does what Strategy::load_state() promises. Collective.
  void load(StateTensor state, const std::function<void(device::Buffer&)>& fill);

 private:
  device::Device& device_;
  models::TrainableModel& model_;
  GradientExchange& exchange_;
  Optimizer& optimizer_;
};

}  // namespace vaecf::training
