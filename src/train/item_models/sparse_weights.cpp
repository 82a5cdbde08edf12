#include "train/item_models/sparse_weights.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "train/item_models/parallel_for.hpp"

namespace vaecf::train {
namespace {

/// Sorts the columns of a row, with their weights.
void sort_row(std::span<std::int32_t> indices, std::span<float> data) {
  std::vector<std::pair<std::int32_t, float>> row;
  row.reserve(indices.size());
  for (std::size_t k = 0; k < indices.size(); ++k) row.emplace_back(indices[k], data[k]);
  std::ranges::sort(row);
  for (std::size_t k = 0; k < row.size(); ++k) std::tie(indices[k], data[k]) = row[k];
}

}  // namespace

void SparseWeights::score(std::span<const std::int32_t> history, std::span<float> scores) const {
  std::ranges::fill(scores, 0.0F);
  for (const std::int32_t item : history) {
    const auto i = static_cast<std::size_t>(item);
    for (auto k = static_cast<std::size_t>(indptr[i]); k < static_cast<std::size_t>(indptr[i + 1]); ++k)
      scores[static_cast<std::size_t>(indices[k])] += data[k];
  }
}

SparseWeights gather_weights(NeighborLists own, std::span<const std::int32_t> order, ListDirection direction,
                             comm::Communicator& ranks, int threads) {
  const auto items = static_cast<std::int64_t>(order.size());
  const auto for_each = [&](const NeighborLists& lists, int rank, const auto& visit) {
    for (std::int64_t s = 0; s < lists.lists; ++s) {
      const std::int32_t item = order[static_cast<std::size_t>(s * ranks.size() + rank)];
      for (auto k = static_cast<std::size_t>(s * lists.size);
           k < static_cast<std::size_t>((s + 1) * lists.size); ++k) {
        const std::int32_t neighbor = lists.neighbors[k];
        if (neighbor < 0) continue;
        const bool from_item = direction == ListDirection::targets_of_source;
        visit(from_item ? item : neighbor, from_item ? neighbor : item, lists.weights[k]);
      }
    }
  };
  SparseWeights all;
  all.indptr.assign(order.size() + 1, 0);
  for_each(own, ranks.rank(), [&](std::int32_t source, std::int32_t, float) {
    ++all.indptr[static_cast<std::size_t>(source) + 1];
  });
  ranks.all_reduce(std::span(all.indptr));
  for (std::size_t i = 1; i <= order.size(); ++i) all.indptr[i] += all.indptr[i - 1];
  all.indices.resize(static_cast<std::size_t>(all.indptr.back()));
  all.data.resize(all.indices.size());
  std::vector<std::int64_t> next(all.indptr.begin(), all.indptr.end() - 1);
  for (int rank = 0; rank < ranks.size(); ++rank) {
    NeighborLists lists =
        rank == ranks.rank() ? std::move(own) : NeighborLists(items, own.size, rank, ranks.size());
    ranks.broadcast(std::span(lists.neighbors), rank);
    ranks.broadcast(std::span(lists.weights), rank);
    ranks.activity().note_progress();
    for_each(lists, rank, [&](std::int32_t source, std::int32_t target, float weight) {
      const auto k = static_cast<std::size_t>(next[static_cast<std::size_t>(source)]++);
      all.indices[k] = target;
      all.data[k] = weight;
    });
  }
  parallel_for(threads, {0, items}, [&](std::int64_t i) {
    const auto begin = static_cast<std::size_t>(all.indptr[static_cast<std::size_t>(i)]);
    const auto size = static_cast<std::size_t>(all.indptr[static_cast<std::size_t>(i) + 1]) - begin;
    sort_row(std::span(all.indices).subspan(begin, size), std::span(all.data).subspan(begin, size));
  });
  return all;
}

}  // namespace vaecf::train
