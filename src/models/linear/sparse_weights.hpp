#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/models/kind.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace vaecf::models {

/// Calls use(column, value) for each element of a row, in loops of their own for ones and for values.
template <class Use>
void for_elements(const SparseRow& row, const Use& use) {
  if (row.values.empty()) {
    for (const std::int32_t column : row.columns) use(column, 1.0F);
  } else {
    for (std::size_t k = 0; k < row.columns.size(); ++k) use(row.columns[k], row.values[k]);
  }
}

/// The names of the weights B (items, items) in a checkpoint: a dense matrix, whose row is the source item,
/// or the arrays of SparseWeights.
inline constexpr const char* matrix_name = "weights/items/matrix";
inline constexpr const char* indptr_name = "weights/items/indptr";
inline constexpr const char* indices_name = "weights/items/indices";
inline constexpr const char* data_name = "weights/items/data";

/// The weights B (items, items) of an item model in compressed sparse row form. The row is the source item,
/// the column the target item; columns are ascending.
struct SparseWeights final : ItemModel {
  std::vector<std::int64_t> indptr{0};  ///< (items + 1)
  std::vector<std::int32_t> indices;
  std::vector<float> data;

  void score(const SparseRow& history, std::span<float> scores) const override;
  float weight(std::int32_t source, std::int32_t target) const override;
  StoredWeights stored() const override {
    return {{}, {{indptr_name, indptr}, {indices_name, indices}, {data_name, data}}};
  }
};

/// Reads the sparse weights of a checkpoint.
SparseWeights read_sparse_weights(const io::CheckpointFile& file);

/// The neighbors of one item, with weights.
struct NeighborList {
  std::vector<std::int32_t> neighbors;
  std::vector<float> weights;
};

/// Returns the number of lists that rank `rank` of `ranks` computes for `items` items. List s of rank r is of
/// the item order[s R + r], for an order of the items that is the same on all R ranks.
inline std::int64_t list_count(std::int64_t items, int rank, int ranks) {
  return (items - rank + ranks - 1) / ranks;
}

/// The direction of the weights in a NeighborList.
enum class ListDirection { sources_of_target, targets_of_source };

/// Returns the weights in the lists of all ranks, on every rank. Collective.
SparseWeights gather_weights(std::vector<NeighborList> own, std::span<const std::int32_t> order,
                             ListDirection direction, comm::Communicator& ranks, int threads);

/// Returns the weights in the lists of all items, on every rank. Each rank computes its lists on `threads`
/// threads: solve(thread, n, list) writes the list of the item order[n]. The progress is called `title`.
/// Returns null on all ranks if the run was asked to stop; the ranks wait for each other after each
/// `batch` lists of a rank, to find out. Collective.
std::shared_ptr<SparseWeights> solve_lists(
    const std::string& title, std::span<const std::int32_t> order, ListDirection direction,
    std::int64_t batch, const Context& context, int threads,
    const std::function<void(int thread, std::int64_t n, NeighborList& list)>& solve);

/// Returns 0, 1, ..., `items` - 1.
std::vector<std::int32_t> ascending_order(std::int64_t items);

}  // namespace vaecf::models
