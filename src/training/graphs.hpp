#pragma once

#include <vaecf/comm/communicator.hpp>
#include <vaecf/device/device.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

namespace vaecf::training {

/// Captures the operations of a training step as a CUDA graph, once per batch shape, and replays them. If
/// capture is not supported, as on CPUs, the operations run directly.
///
/// All ranks must capture together and replay together, since NCCL requires matching collectives on all
/// ranks. A shape therefore describes the batch of all ranks.
class StepGraphs {
 public:
  /// The update group of the step, the first virtual shard of its batch (0 for a single rank), and the number
  /// of users of the batch over all ranks. The last two determine the number of users of every rank.
  using Shape = std::array<std::int64_t, 3>;

  /// Both arguments must outlive this object.
  StepGraphs(device::Device& device, comm::Communicator& communicator);

  /// Runs `work` and captures it as the graph of `shape`, or replays that graph. Collective if the graphs
  /// were invalidated since the last call.
  void run(Shape shape, const std::function<void()>& work);

  /// While disabled, run() executes the operations directly, so that their phases can be timed. All ranks
  /// must call it.
  void set_enabled(bool enabled) {
    enabled_ = enabled;
    invalidated_ = true;
  }
  /// Makes the next run() check whether device memory was reallocated, for example by an evaluation. All
  /// ranks must call it.
  void invalidate() { invalidated_ = true; }

 private:
  void drop_stale_graphs();

  device::Device& device_;
  comm::Communicator& communicator_;
  bool captures_;
  bool enabled_ = true;
  bool invalidated_ = false;
  std::map<Shape, std::unique_ptr<device::Graph>> graphs_;
};

}  // namespace vaecf::training
