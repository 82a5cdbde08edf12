#pragma once

#include <cstdint>

#include "device/cuda/platform/gpu.hpp"
#include "device/cuda/platform/memory.hpp"
#include "device/cuda/platform/stream.hpp"
#include "device/cuda/shared_names.hpp"

namespace vaecf::cuda {

/// Parameters and losses of a step in device memory.
struct DeviceStepState : device::StepValues {
  LossScale scale{1.0F, 0};

  /// Returns the scale of the loss of user `user` of the batch: 0 if that user only pads the batch.
  VAECF_HD float scale_of(std::int64_t user) const { return user < params.users ? scale.scale : 0.0F; }
};

/// A loss term of each user of a batch, to be added to the step's losses.
struct UserLosses {
  DeviceArray<double> memory;
  Range users;    ///< of the batch; empty: none, or added already
  Range counted;  ///< users that the step's number of users includes: the own ones
};

class StepState final : public device::StepState {
 public:
  explicit StepState(Gpu& gpu)
      : device_state(gpu, 1, "the state of a step"),
        gradient_stats(DeviceArray<float>(gpu, 2, "the state of a step")),
        readback(1) {}

  /// Parameters of begin_step(), for decisions on the host.
  device::StepParams params;
  DeviceArray<DeviceStepState> device_state;
  Buffer gradient_stats;  ///< overflows and squares
  // Losses that end_step() adds: a graph of the operations that computed them must include it.
  UserLosses nll;
  UserLosses kl;
  UserLosses weighted_kl;
  // Asynchronous read-back of the losses.
  PinnedArray<DeviceStepState> readback;
  Event arrived;
  bool readback_pending = false;
  std::int64_t polls = 0;
  bool has_losses = false;
  LossSums last_losses;
};

}  // namespace vaecf::cuda
