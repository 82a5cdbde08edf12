#include "train/step/graphs.hpp"

#include <algorithm>
#include <utility>

namespace vaecf::train {

StepGraphs::StepGraphs(device::Device& device, comm::Communicator& communicator)
    : device_(device),
      communicator_(communicator),
      captures_(communicator.size() == 1 || communicator.supports_graph_capture()) {}

void StepGraphs::run(Shape shape, const std::function<void()>& work) {
  if (!captures_ || !enabled_) return work();
  if (std::exchange(invalidated_, false)) drop_stale_graphs();
  std::unique_ptr<device::Graph>& graph = graphs_[shape];
  if (graph && device_.replay(*graph)) return;
  graph = device_.capture(work);
  captures_ = graph != nullptr;
  invalidated_ = true;
}

// Discards the graphs of all ranks if the memory of any rank has moved. For a single rank, replay() detects
// this by itself.
void StepGraphs::drop_stale_graphs() {
  if (communicator_.size() == 1) return;
  const bool moved =
      std::ranges::any_of(graphs_, [&](const auto& entry) { return !device_.is_valid(*entry.second); });
  if (communicator_.all_reduce(std::int64_t{moved ? 1 : 0}, comm::Reduction::max) == 1) graphs_.clear();
}

}  // namespace vaecf::train
