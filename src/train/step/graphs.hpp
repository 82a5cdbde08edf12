#pragma once

#include <vaecf/comm/communicator.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

namespace vaecf::train {

/// Captures the operations of a training step as a CUDA graph, once per batch shape, and replays them. If
/// capture is not supported, as on CPUs, the operations run directly.
///
/// All ranks must capture together and replay together, since NCCL requires matching collectives on all
/// ranks. A shape therefore describes the batch of all ranks.
template <class Device>
class StepGraphs {
 public:
  /// The update group of the step, the first virtual shard of its batch (0 for a single rank), and the number
  /// of users of the batch over all ranks. The last two determine the number of users of every rank.
  using Shape = std::array<std::int64_t, 3>;

  /// Both arguments must outlive this object.
  StepGraphs(Device& device, comm::Communicator& communicator)
      : device_(device),
        communicator_(communicator),
        captures_(communicator.size() == 1 || communicator.supports_graph_capture()) {}

  /// Runs `work` and captures it as the graph of `shape`, or replays that graph. Collective if the graphs
  /// were invalidated since the last call.
  template <class Work>
  void run(Shape shape, Work&& work) {
    if (!captures_ || !enabled_) return work();
    if (std::exchange(invalidated_, false)) drop_stale_graphs();
    auto& graph = graphs_[shape];
    if (graph && device_.replay(*graph)) return;
    graph = device_.capture(work);
    captures_ = graph != nullptr;
    invalidated_ = true;
  }

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
  bool single_rank() const { return communicator_.size() == 1; }

  /// Discards the graphs of all ranks if the memory of any rank has moved. For a single rank, replay()
  /// detects this by itself. Collective.
  void drop_stale_graphs() {
    if (single_rank()) return;
    const bool moved =
        std::ranges::any_of(graphs_, [&](const auto& entry) { return !device_.is_valid(*entry.second); });
    if (communicator_.all_reduce(std::int64_t{moved ? 1 : 0}, comm::Reduction::max) == 1) graphs_.clear();
  }

  Device& device_;
  comm::Communicator& communicator_;
  bool captures_;
  bool enabled_ = true;
  bool invalidated_ = false;
  std::map<Shape, std::unique_ptr<typename Device::Graph>> graphs_;
};

}  // namespace vaecf::train
