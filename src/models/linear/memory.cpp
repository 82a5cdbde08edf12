#include "models/linear/memory.hpp"

#include <algorithm>

#include "models/linear/sparse_weights.hpp"

namespace vaecf::models {

double interaction_bytes(const io::DatasetFile& dataset, bool features) {
  return (features ? 24.0 : 16.0) * (dataset.weighted() ? 2.0 : 1.0) *
         static_cast<double>(dataset.entries("train") + dataset.entries("items/features"));
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
