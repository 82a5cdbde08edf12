#include "models/linear/sparse_weights.hpp"

#include <vaecf/base/parallel_for.hpp>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <tuple>
#include <utility>

namespace vaecf::models {
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

void SparseWeights::score(const SparseRow& history, std::span<float> scores) const {
  std::ranges::fill(scores, 0.0F);
  for_elements(history, [&](std::int32_t item, float x) {
    const auto i = static_cast<std::size_t>(item);
    for (auto k = static_cast<std::size_t>(indptr[i]); k < static_cast<std::size_t>(indptr[i + 1]); ++k)
      scores[static_cast<std::size_t>(indices[k])] += x * data[k];
  });
}

float SparseWeights::weight(std::int32_t source, std::int32_t target) const {
  const auto begin = indices.begin() + indptr[static_cast<std::size_t>(source)];
  const auto end = indices.begin() + indptr[static_cast<std::size_t>(source) + 1];
  const auto found = std::lower_bound(begin, end, target);
  return found == end || *found != target ? 0.0F : data[static_cast<std::size_t>(found - indices.begin())];
}

SparseWeights read_sparse_weights(const io::CheckpointFile& file) {
  SparseWeights weights;
  weights.indptr = file.read_array<std::int64_t>(indptr_name);
  weights.indices = file.read_array<std::int32_t>(indices_name);
  weights.data = file.read_array<float>(data_name);
  return weights;
}

SparseWeights gather_weights(std::vector<NeighborList> own, std::span<const std::int32_t> order,
                             ListDirection direction, comm::Communicator& ranks, int threads) {
  const auto items = static_cast<std::int64_t>(order.size());
  const bool from_item = direction == ListDirection::targets_of_source;
  const auto item_of = [&](std::size_t list, int rank) {
    return order[list * static_cast<std::size_t>(ranks.size()) + static_cast<std::size_t>(rank)];
  };
  SparseWeights all;
  all.indptr.assign(order.size() + 1, 0);
  for (std::size_t s = 0; s < own.size(); ++s) {
    for (const std::int32_t neighbor : own[s].neighbors)
      ++all.indptr[static_cast<std::size_t>(from_item ? item_of(s, ranks.rank()) : neighbor) + 1];
  }
  ranks.all_reduce(std::span(all.indptr));
  for (std::size_t i = 1; i <= order.size(); ++i) all.indptr[i] += all.indptr[i - 1];
  all.indices.resize(static_cast<std::size_t>(all.indptr.back()));
  all.data.resize(all.indices.size());
  std::vector<std::int64_t> next(all.indptr.begin(), all.indptr.end() - 1);
  const auto place = [&](std::int32_t item, std::int32_t neighbor, float weight) {
    const std::int32_t source = from_item ? item : neighbor;
    const auto k = static_cast<std::size_t>(next[static_cast<std::size_t>(source)]++);
    all.indices[k] = from_item ? neighbor : item;
    all.data[k] = weight;
  };
  // Lists are sent one after the other in blocks of about this size, so that no copy of all is needed.
  constexpr std::size_t block_entries = std::size_t{1} << 22;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const auto lists = static_cast<std::size_t>(list_count(items, rank, ranks.size()));
    std::vector<std::int64_t> sizes(lists, 0);
    if (rank == ranks.rank())
      std::ranges::transform(own, sizes.begin(),
                             [](const NeighborList& list) { return std::ssize(list.weights); });
    ranks.broadcast(std::span(sizes), rank);
    NeighborList block;
    for (std::size_t begin = 0, end = 0; begin < lists; begin = end) {
      std::size_t entries = 0;
      for (; end < lists && (end == begin || entries < block_entries); ++end)
        entries += static_cast<std::size_t>(sizes[end]);
      block = {};
      for (std::size_t s = begin; s < end && rank == ranks.rank(); ++s) {
        block.neighbors.insert(block.neighbors.end(), own[s].neighbors.begin(), own[s].neighbors.end());
        block.weights.insert(block.weights.end(), own[s].weights.begin(), own[s].weights.end());
        own[s] = {};
      }
      block.neighbors.resize(entries);
      block.weights.resize(entries);
      ranks.broadcast(std::span(block.neighbors), rank);
      ranks.broadcast(std::span(block.weights), rank);
      ranks.activity().note_progress();
      for (std::size_t s = begin, n = 0; s < end; ++s) {
        const std::size_t next_list = n + static_cast<std::size_t>(sizes[s]);
        for (; n < next_list; ++n) place(item_of(s, rank), block.neighbors[n], block.weights[n]);
      }
    }
  }
  parallel_for(threads, {0, items}, [&](std::int64_t i) {
    const auto begin = static_cast<std::size_t>(all.indptr[static_cast<std::size_t>(i)]);
    const auto size = static_cast<std::size_t>(all.indptr[static_cast<std::size_t>(i) + 1]) - begin;
    sort_row(std::span(all.indices).subspan(begin, size), std::span(all.data).subspan(begin, size));
  });
  return all;
}

std::shared_ptr<SparseWeights> solve_lists(
    const std::string& title, std::span<const std::int32_t> order, ListDirection direction,
    std::int64_t batch, const Context& context, int threads,
    const std::function<void(int thread, std::int64_t n, NeighborList& list)>& solve) {
  comm::Communicator& ranks = context.communicator;
  const auto items = std::ssize(order);
  std::vector<NeighborList> own(static_cast<std::size_t>(list_count(items, ranks.rank(), ranks.size())));
  context.progress.begin(format("{}, {} items", title, items), std::ssize(own), "items");
  const std::int64_t step =
      ranks.all_reduce(std::max(std::int64_t{16} * threads, batch), comm::Reduction::max);
  bool stopped = false;
  const std::int64_t end = list_count(items, 0, ranks.size());  // equal on all ranks
  for (std::int64_t begin = 0; begin < end && !stopped; begin += step) {
    parallel_for(
        threads, {begin, std::min(std::ssize(own), begin + step)},
        [&](int thread, std::int64_t list) {
          solve(thread, list * ranks.size() + ranks.rank(), own[static_cast<std::size_t>(list)]);
        },
        [&](std::int64_t done) {
          ranks.activity().note_progress();
          context.progress.update(begin + done);
        });
    stopped = context.any_rank_asked_to_stop();
  }
  context.progress.end();
  if (stopped) return nullptr;
  return std::make_shared<SparseWeights>(gather_weights(std::move(own), order, direction, ranks, threads));
}

std::vector<std::int32_t> ascending_order(std::int64_t items) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(items));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

}  // namespace vaecf::models
