#include "models/linear/memory.hpp"

#include <vaecf/base/text.hpp>

#include <algorithm>

#include "models/linear/sparse_weights.hpp"

namespace vaecf::models {

Cost with_interactions(Cost cost, bool features, const Workload& work) {
  cost.host_bytes += (features ? 24.0 : 16.0) * (work.weighted ? 2.0 : 1.0) *
                     static_cast<double>(work.train_entries + work.feature_entries);
  cost.memory = format("about {:.0f} MiB per rank while it is solved", cost.host_bytes / 1048576.0);
  return cost;
}

double sparse_weight_bytes(std::int64_t items, std::int64_t entries, const comm::Communicator& ranks) {
  const double part = 1.0 / ranks.size();
  const double lists = part * static_cast<double>(sizeof(NeighborList)) * static_cast<double>(items);
  return static_cast<double>(entries) * (8.0 + std::max(8.0 * part, 4.0)) + lists;
}

double sparse_checkpoint_bytes(std::int64_t items, std::int64_t entries) {
  return 8.0 * (static_cast<double>(items) + static_cast<double>(entries));
}

}  // namespace vaecf::models
