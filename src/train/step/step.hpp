#pragma once

#include <vaecf/model/network.hpp>
#include <vaecf/model/step_timer.hpp>

#include "train/engine/training_data.hpp"
#include "train/step/graphs.hpp"
#include "train/step/optimizer_state.hpp"

namespace vaecf::train {

/// One rank's part of a training step, for any device and any number of ranks. run() sets the parameters of
/// the step; work() is the step itself, executed directly or replayed as a CUDA graph. The constructor
/// arguments select the precision, the sharding of the optimizer, and overlap.
template <class Device>
class Step {
 public:
  /// All arguments must outlive this object.
  Step(TrainingData<Device>& data, OptimizerState<Device>& optimizer, StepGraphs<Device>& graphs)
      : timer(data.device, false),
        device_(data.device),
        data_(data),
        network_(data.network),
        optimizer_(optimizer),
        reducer_(optimizer.reducer()),
        state_(*data.state),
        graphs_(graphs) {}

  /// Updates the weights once, with the parameters `params`, on a batch with `users` users of this rank.
  /// `shape` describes the batch of all ranks; steps of equal shape share a captured graph. Collective. On a
  /// GPU, returns before the device has finished. Throws RunError if a collective fails.
  void run(const device::StepParams& params, std::int64_t users, typename StepGraphs<Device>::Shape shape) {
    timer.start();
    data_.prepare(params.batch);
    // Kernels read the parameters from device memory, so that a replayed graph uses those of this step.
    device_.begin_step(params, state_);
    graphs_.run(shape, [&] { work(users); });
  }

  model::StepTimer<Device> timer;  ///< measures the phases of a step; off by default

 private:
  /// Enqueues all device operations and collectives of one step.
  void work(std::int64_t users) {
    // Gather this rank's users of the batch, with the transposes for the backward pass.
    const auto batch = data_.gather(users);

    // The backward pass writes the gradient in the order of the flat layout, the output layer first. A single
    // CPU rank updates the two largest layers (input and output) tile by tile, while their gradients are in
    // cache. With overlap, the backward pass reports each complete range of the gradient to the reducer,
    // which starts the reductions of complete buckets meanwhile.
    reducer_.begin_step();
    network_.forward_backward(batch, state_, optimizer_.gradients(), optimizer_.ready(), timer,
                              optimizer_.fused());

    // fp16 and clipping need the complete gradient before any weight changes. Each rank computes the squared
    // norm and the overflow flag of its part of each reduced bucket. Both are then all-reduced, so that all
    // ranks scale the gradient, or skip the step, alike.
    if (optimizer_.inspects_first()) {
      for (std::int64_t bucket = 0; bucket < reducer_.plan().buckets(); ++bucket) {
        reducer_.wait_bucket(bucket);
        device_.accumulate_gradient_stats(optimizer_.gradients(), reducer_.inspected_range(bucket), state_);
      }
      reducer_.all_reduce_values(device_.gradient_stats(state_));
    }

    // Update all weights at once, or this rank's part of each bucket if the optimizer is sharded.
    for (std::int64_t update = 0; update < reducer_.update_count(); ++update) {
      const comm::UpdateRange owned = reducer_.wait_update_range(update);
      timer.end_phase(model::StepPhase::reduce);
      optimizer_.update(update, owned, state_);
      timer.end_phase(model::StepPhase::update);
      reducer_.all_gather_weights(update, network_.parameters());
    }
    reducer_.finish_step(network_.parameters());
    timer.end_phase(model::StepPhase::reduce);
    device_.end_step(state_);  // adds the losses to the epoch's sums and adjusts the fp16 loss scale
    timer.end_phase(model::StepPhase::update);
  }

  Device& device_;
  TrainingData<Device>& data_;
  model::Network<Device>& network_;
  OptimizerState<Device>& optimizer_;
  comm::Reducer<Device>& reducer_;
  typename Device::StepState& state_;
  StepGraphs<Device>& graphs_;
};

}  // namespace vaecf::train
