#pragma once

#include <vaecf/comm/communicator.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

namespace vaecf::train {

/// Captures the operations of a training step once for each shape of batch, and replays them (CUDA graphs).
/// On a CPU, and wherever steps cannot be captured, a step simply runs.
///
/// Ranks capture together and replay together, because the reductions in a graph are those of all ranks'
/// graphs of the same step (NCCL requires it). A shape therefore describes the batches of all ranks.
template <class Device>
class StepGraphs {
 public:
  using Shape = std::pair<std::int64_t, std::int64_t>;

  StepGraphs(Device& device, comm::Communicator& communicator)
      : device_(device),
        communicator_(communicator),
        captures_(communicator.size() == 1 || communicator.recordable()) {}

  /// Runs `work`, or replays it. Collective if memory may have moved since the last call.
  template <class Work>
  void run(Shape shape, Work&& work) {
    if (!captures_ || paused_) return work();
    if (std::exchange(memory_may_have_moved_, false)) agree();
    auto& graph = graphs_[shape];
    if (graph && device_.replay(*graph)) return;
    graph = device_.record(work);
    captures_ = graph != nullptr;
    memory_may_have_moved_ = true;
  }

  /// Lets steps simply run, as when their phases are timed. Call it alike on all ranks.
  void pause(bool on) {
    paused_ = on;
    memory_may_have_moved_ = true;
  }
  /// Device memory may have been allocated anew, as by an evaluation. Call it alike on all ranks.
  void memory_may_have_moved() { memory_may_have_moved_ = true; }

 private:
  bool alone() const { return communicator_.size() == 1; }

  /// If the memory of any rank has moved, all ranks forget their graphs. A single rank captures again by
  /// itself.
  void agree() {
    if (alone()) return;
    const bool moved =
        std::ranges::any_of(graphs_, [&](const auto& entry) { return !device_.fits(*entry.second); });
    if (communicator_.all_reduce(std::int64_t{moved ? 1 : 0}, comm::Reduction::max) == 1) graphs_.clear();
  }

  Device& device_;
  comm::Communicator& communicator_;
  bool captures_;
  bool paused_ = false;
  bool memory_may_have_moved_ = false;
  std::map<Shape, std::unique_ptr<typename Device::Graph>> graphs_;
};

}  // namespace vaecf::train
