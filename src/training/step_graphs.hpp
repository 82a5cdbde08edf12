#pragma once

#include <vaecf/comm/communicator.hpp>
#include <vaecf/device/device.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

namespace vaecf::training {

/// Captures the operations of a training step as a CUDA graph, once per batch shape, and replays them. If
/// capture is not supported, as on CPUs, the operations run directly.
///
/// All ranks must capture together and replay together, since NCCL requires matching collectives on all
/// ranks. A shape therefore describes the batch of all ranks, and each rank pads its part of batches of one
/// size to one number of users.
class StepGraphs {
 public:
  /// The parameter group of the step, and the number of users of its batch over all ranks.
  using Shape = std::pair<int, std::int64_t>;

  /// Both arguments must outlive this object.
  StepGraphs(device::Device& device, comm::Communicator& communicator)
      : device_(device),
        communicator_(communicator),
        captures_(communicator.size() == 1 || communicator.supports_graph_capture()) {}

  /// Runs `work` and captures it as the graph of `shape`, or replays that graph. Collective if the graphs
  /// were invalidated since the last call.
  void run(Shape shape, const std::function<void()>& work) {
    if (!captures_ || !enabled_) return work();
    if (std::exchange(memory_may_have_moved_, false)) drop_stale_graphs();
    std::unique_ptr<device::Graph>& graph = graphs_[shape];
    if (graph && device_.replay(*graph)) return;
    graph = device_.capture(work);
    captures_ = graph != nullptr;
    memory_may_have_moved_ = true;
  }

  /// While disabled, run() executes the operations directly, so that their phases can be timed. All ranks
  /// must call it.
  void set_enabled(bool enabled) {
    enabled_ = enabled;
    memory_may_have_moved_ = true;
  }
  /// Makes the next run() check whether memory that graphs use was reallocated, for example by an evaluation.
  /// All ranks must call it.
  void memory_may_have_moved() { memory_may_have_moved_ = true; }

 private:
  /// Discards the graphs of all ranks if the memory of any rank has moved. For a single rank, replay()
  /// detects this by itself.
  void drop_stale_graphs() {
    if (communicator_.size() == 1) return;
    const bool moved =
        std::ranges::any_of(graphs_, [&](const auto& entry) { return !device_.is_valid(*entry.second); });
    if (communicator_.all_reduce(std::int64_t{moved ? 1 : 0}, comm::Reduction::max) == 1) graphs_.clear();
  }

  device::Device& device_;
  comm::Communicator& communicator_;
  bool captures_;
  bool enabled_ = true;
  bool memory_may_have_moved_ = false;
  std::map<Shape, std::unique_ptr<device::Graph>> graphs_;
};

}  // namespace vaecf::training
