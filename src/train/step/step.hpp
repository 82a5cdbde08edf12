#pragma once

#include <vaecf/model/step_timer.hpp>
#include <vaecf/model/trainable_model.hpp>

#include "train/engine/training_data.hpp"
#include "train/step/graphs.hpp"
#include "train/step/optimizer_state.hpp"

namespace vaecf::train {

/// One rank's part of a training step, for any device and any number of ranks. run() sets the parameters of
/// the step. work() contains its operations, which run directly or are replayed as a CUDA graph. `optimizer`
/// determines whether the optimizer is sharded and whether communication overlaps the backward pass.
template <class Device>
class Step {
 public:
  /// All arguments must outlive this object.
  Step(TrainingData<Device>& data, OptimizerState<Device>& optimizer, StepGraphs<Device>& graphs)
      : timer(data.device, false),
        device_(data.device),
        data_(data),
        model_(*data.model),
        optimizer_(optimizer),
        state_(*data.state),
        graphs_(graphs) {}

  /// Updates the weights of update group `group` once, with the parameters `params`, on a batch with `users`
  /// users of this rank. In fp16, skips the update if a gradient overflows. `shape` describes the batch of
  /// all ranks; steps of equal shape share a captured graph. Collective. On a GPU, may return before the
  /// device has finished. Throws RunError if a collective fails.
  void run(const device::StepParams& params, std::int64_t users, int group,
           typename StepGraphs<Device>::Shape shape) {
    timer.start();
    // Kernels read the parameters from device memory, so that a replayed graph uses those of this step.
    device_.begin_step(params, state_);
    graphs_.run(shape, [&] { work(users, group); });
  }

  model::StepTimer<Device> timer;  ///< measures the phases of a step; off by default

 private:
  /// Runs all device operations and collectives of one step. On a GPU, only enqueues them.
  void work(std::int64_t users, int group) {
    // Gather the users of this rank's group in the batch, with the transposes for the backward pass.
    const auto batch = data_.gather(users);

    // The backward pass writes the gradient in the order of the flat layout, the output layer first. A rank
    // whose tensors of items no other rank has may update the two largest layers (input and output)
    // meanwhile: a CPU tile by tile, while their gradients are in cache. With overlap, the backward pass
    // reports each complete range of the gradient to the reducer, which starts the reduction of a bucket as
    // soon as all its elements are complete.
    const auto reducers = optimizer_.begin_step(group);
    model_.forward_backward(batch, state_, optimizer_.gradients(), optimizer_.ready(), timer,
                            optimizer_.fused(), group);

    // fp16 and clipping need the complete gradient before any weight changes. Each rank computes the squared
    // norm and the number of non-finite elements of its part of each reduced bucket. Both are then summed
    // over ranks, so that all ranks clip by the same factor, or all skip the update.
    if (optimizer_.needs_gradient_stats()) {
      for (comm::Reducer<Device>* reducer : reducers) {
        const Range buckets = reducer->step_buckets();
        for (std::int64_t bucket = buckets.begin; bucket < buckets.end; ++bucket) {
          reducer->wait_bucket(bucket);
          device_.accumulate_gradient_stats(optimizer_.gradients(), reducer->gradient_stats_range(bucket),
                                            state_);
        }
      }
      optimizer_.all_reduce_values(device_.gradient_stats(state_));
    }

    // Update all weights of the group at once, or this rank's part of each bucket if the optimizer is
    // sharded.
    for (comm::Reducer<Device>* reducer : reducers) {
      for (std::int64_t update = 0; update < reducer->update_count(); ++update) {
        const comm::UpdateRange owned = reducer->wait_update_range(update);
        timer.end_phase(model::StepPhase::reduce);
        optimizer_.update(owned, state_);
        timer.end_phase(model::StepPhase::update);
        reducer->all_gather_weights(owned.bucket, model_.parameters());
      }
      reducer->finish_step(model_.parameters());
    }
    timer.end_phase(model::StepPhase::reduce);
    device_.end_step(state_);  // adds the losses to the sums of the epoch and updates the fp16 loss scale
    timer.end_phase(model::StepPhase::update);
  }

  Device& device_;
  TrainingData<Device>& data_;
  model::TrainableModel<Device>& model_;
  OptimizerState<Device>& optimizer_;
  typename Device::StepState& state_;
  StepGraphs<Device>& graphs_;
};

}  // namespace vaecf::train
