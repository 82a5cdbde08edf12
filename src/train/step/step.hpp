#pragma once

#include <vaecf/model/network.hpp>
#include <vaecf/model/step_clock.hpp>

#include "train/engine/training_data.hpp"
#include "train/step/graphs.hpp"
#include "train/step/optimizer_state.hpp"

namespace vaecf::train {

/// One rank's part of one training step. Everything that happens in a step happens in run() and work(), on
/// any device, for one rank and many. What differs is decided once, at construction.
template <class Device>
class Step {
 public:
  /// All arguments outlive the step.
  Step(TrainingData<Device>& data, OptimizerState<Device>& optimizer, StepGraphs<Device>& graphs)
      : clock(data.device, false),
        device_(data.device),
        data_(data),
        model_(data.network),
        optimizer_(optimizer),
        reducer_(optimizer.reducer()),
        state_(*data.state),
        graphs_(graphs) {}

  /// Runs the batch that `numbers` name; `users` of it are this rank's. `shape` tells apart the batches of
  /// all ranks that need graphs of their own. A device may still be at work when this returns.
  void run(const device::StepNumbers& numbers, std::int64_t users, typename StepGraphs<Device>::Shape shape) {
    clock.start();
    device_.begin_step(numbers, state_);  // to where kernels read them: a replayed graph finds new ones
    graphs_.run(shape, [&] { work(users); });
  }

  model::StepClock<Device> clock;  ///< phase times; off by default

 private:
  void work(std::int64_t users) {
    // This rank's users of the batch, with the transposes that backward needs.
    const auto batch = data_.gather(users);

    // Backward writes the gradient in the order of the flat layout, the output layer first. A single CPU rank
    // updates the two largest layers tile by tile, while their gradients are in cache. With overlap, the
    // reducer hears of every range that is complete and starts its reduction beside the rest of backward.
    reducer_.begin();
    model_.forward_backward(batch, state_, optimizer_.gradients(), optimizer_.ready(), clock,
                            optimizer_.fused());

    // fp16 and clipping need the whole gradient before any weight may change: each rank inspects its part of
    // every sum for overflows and for the norm. Both are then summed, so that all ranks skip or scale alike.
    if (optimizer_.inspects_first()) {
      for (std::int64_t b = 0; b < reducer_.plan().buckets(); ++b) {
        reducer_.sum(b);
        device_.inspect_gradients(optimizer_.gradients(), reducer_.inspected(b), state_);
      }
      reducer_.sum_values(device_.verdict(state_));
    }

    // The update: of all weights, or bucket by bucket of this rank's part if the optimizer is sharded.
    for (std::int64_t u = 0; u < reducer_.updates(); ++u) {
      const comm::Own own = reducer_.sum_for_update(u);
      clock.lap(model::StepPhase::reduce);
      optimizer_.update(u, own, state_);
      clock.lap(model::StepPhase::update);
      reducer_.give(u, model_.parameters());
    }
    reducer_.finish(model_.parameters());
    clock.lap(model::StepPhase::reduce);
    device_.end_step(state_);  // the losses join the epoch's sums; the fp16 loss scale moves
    clock.lap(model::StepPhase::update);
  }

  Device& device_;
  TrainingData<Device>& data_;
  model::Network<Device>& model_;
  OptimizerState<Device>& optimizer_;
  comm::Reducer<Device>& reducer_;
  typename Device::StepState& state_;
  StepGraphs<Device>& graphs_;
};

}  // namespace vaecf::train
