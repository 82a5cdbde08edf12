#pragma once

#include <vaecf/model/network.hpp>
#include <vaecf/model/step_timer.hpp>

#include "train/engine/training_data.hpp"
#include "train/step/graphs.hpp"
#include "train/step/optimizer_state.hpp"

namespace vaecf::train {

/// One rank's part of a training step. run() and work() contain the complete step, for any device and any
/// number of ranks; variants are selected at construction.
template <class Device>
class Step {
 public:
  /// All arguments must outlive this object.
  Step(TrainingData<Device>& data, OptimizerState<Device>& optimizer, StepGraphs<Device>& graphs)
      : timer(data.device, false),
        device_(data.device),
        data_(data),
        model_(data.network),
        optimizer_(optimizer),
        reducer_(optimizer.reducer()),
        state_(*data.state),
        graphs_(graphs) {}

  /// Runs the step with parameters `params` on a batch with `users` users of this rank. Batches of equal
  /// `shape` share a captured graph. The device may still be running when this returns.
  void run(const device::StepParams& params, std::int64_t users, typename StepGraphs<Device>::Shape shape) {
    timer.start();
    device_.begin_step(params,
                       state_);  // kernels read them from device memory, so that a replayed graph sees them
    graphs_.run(shape, [&] { work(users); });
  }

  model::StepTimer<Device> timer;  ///< phase times; off by default

 private:
  void work(std::int64_t users) {
    // Gather this rank's users of the batch, with the transposes for the backward pass.
    const auto batch = data_.gather(users);

    // The backward pass writes the gradient in the order of the flat layout, the output layer first. A single
    // CPU rank updates the two largest layers tile by tile, while their gradients are in cache. With overlap,
    // every complete range is reported to the reducer, which starts reductions during the rest of the
    // backward pass.
    reducer_.begin_step();
    model_.forward_backward(batch, state_, optimizer_.gradients(), optimizer_.ready(), timer,
                            optimizer_.fused());

    // fp16 and clipping need the complete gradient before any weight changes. Each rank inspects its part of
    // every sum for overflow and norm. Both are then all-reduced, so that all ranks make the same decision.
    if (optimizer_.inspects_first()) {
      for (std::int64_t b = 0; b < reducer_.plan().buckets(); ++b) {
        reducer_.wait_bucket(b);
        device_.accumulate_gradient_stats(optimizer_.gradients(), reducer_.inspected_range(b), state_);
      }
      reducer_.all_reduce_values(device_.gradient_stats(state_));
    }

    // Update all weights at once, or this rank's part of each bucket if the optimizer is sharded.
    for (std::int64_t u = 0; u < reducer_.update_count(); ++u) {
      const comm::UpdateRange own = reducer_.wait_update_range(u);
      timer.end_phase(model::StepPhase::reduce);
      optimizer_.update(u, own, state_);
      timer.end_phase(model::StepPhase::update);
      reducer_.all_gather_weights(u, model_.parameters());
    }
    reducer_.finish_step(model_.parameters());
    timer.end_phase(model::StepPhase::reduce);
    device_.end_step(state_);  // adds the losses to the epoch's sums and adjusts the fp16 loss scale
    timer.end_phase(model::StepPhase::update);
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
