// Metrics and top-k lists, computed from the same loop over the scores of users.
#include <vaecf/math/metrics.hpp>
#include <vaecf/math/ranking.hpp>

#include <cmath>
#include <limits>

#include "device/cpu/device.hpp"
#include "device/cpu/kernels/gemm.hpp"
#include "device/cpu/operations/output_layer.hpp"

namespace vaecf::cpu {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// Scores without bias by the custom kernel of the output layer.
class TileScores : private TileOperands {
 public:
  TileScores(const TileKernels& kernels, Workspace& workspace, const OutputOperands& operands)
      : TileOperands(kernels, workspace, operands) {
    for (PerThread& t : w_.threads) t.weights.reserve(k_tiles_ * tile_numbers);
    // Users are the rows: left operands without conversion.
    parallel_for(threads_, user_tiles_, [&](int, std::int64_t u) {
      for (std::int64_t k = 0; k < k_tiles_; ++k) copy_hidden(u, k, hidden_tiles(u) + k * tile_numbers);
    });
  }

  /// Writes a row of `stride` elements per user. `rows` must have capacity for whole tiles of users.
  void write(float* rows, std::int64_t stride) const {
    const std::int64_t blocks = tiles_for(items_);
    for_each(blocks, [&](PerThread& mine, std::int64_t block) {
      for (std::int64_t k = 0; k < k_tiles_; ++k) {
        std::uint16_t* tile = mine.bf16.data();
        pack_weights(block, k, tile);
        kernels_.transpose(tile, tile + tile_numbers);
        kernels_.pair(tile + tile_numbers, mine.weights.data() + k * tile_numbers);
      }
      const auto* next = reinterpret_cast<const char*>(weights16_ + (block + 1) * tile_side * k_);
      const std::int64_t piece = block + 1 < blocks ? tile_side * k_ * 2 / user_tiles_ : 0;
      for (std::int64_t u = 0; u < user_tiles_; ++u) {
        kernels_.multiply({.a = hidden_tiles(u),
                           .b = mine.weights.data(),
                           .c = rows + u * tile_side * stride + block * tile_side,
                           .reduced = k_,
                           .stride = stride,
                           .prefetch = next + u * piece,
                           .prefetch_bytes = piece});
      }
    });
  }

 private:
  std::uint16_t* hidden_tiles(std::int64_t user_tile) const {
    return w_.hidden16.data() + user_tile * k_tiles_ * tile_numbers;
  }
};

/// Returns the number of items of this rank's item slice that rank ahead of `target` with score `score`,
/// given the scores of the item slice. The user's seen items, `masked`, have the score minus infinity. They
/// do not count, but they rank ahead of a target whose score is minus infinity or NaN, so they are
/// subtracted. A target that the user has and the item slice holds results in -1.
std::int32_t count_ahead(std::int32_t target, float score, std::span<const float> scores,
                         std::span<const std::int32_t> masked, const ItemSlice& item_slice) {
  const std::int64_t before =
      item_slice.before(target);  // the local index of the target if the item slice holds it
  const bool holds = item_slice.holds(target);
  if (holds && std::ranges::binary_search(masked, static_cast<std::int32_t>(before))) return -1;
  std::int64_t ahead = count_ranked_ahead(scores.data(), std::ssize(scores), score, before);
  if (holds && std::isnan(score)) --ahead;  // a NaN counts against every target, even itself
  if (!(score > -infinity)) {
    ahead -= std::ranges::count_if(
        masked, [&](std::int32_t item) { return math::ranks_ahead(-infinity, item, score, before); });
  }
  return static_cast<std::int32_t>(ahead);
}

/// Gathers `part` of all item slices: the values of item slice s begin at s * part.size(). One item slice
/// exchanges nothing.
template <class T>
std::vector<T> gather_values(ModelParallelGroup& model_parallel, std::vector<T> part) {
  static_assert(sizeof(T) == sizeof(float));
  if (model_parallel.count() == 1) return part;
  std::vector<T> all(part.size() * static_cast<std::size_t>(model_parallel.count()));
  if (part.empty()) return all;
  // Bits are copied: exchanges do not compute.
  model_parallel.all_gather({reinterpret_cast<const float*>(part.data()), part.size()},
                            {reinterpret_cast<float*>(all.data()), all.size()}, {});
  return all;
}

struct Scored {
  float score;
  std::int32_t item;
};
bool better(const Scored& a, const Scored& b) {
  return math::ranks_ahead(a.score, a.item, b.score, b.item);
}
/// Orders items with any score: NaN is treated as minus infinity, because sorting requires an order.
bool better_or_nan_last(const Scored& a, const Scored& b) {
  const auto ordered = [](float score) { return std::isnan(score) ? -infinity : score; };
  return math::ranks_ahead(ordered(a.score), a.item, ordered(b.score), b.item);
}

/// Returns the k best items with scores above minus infinity, best first; fewer if there are not k. Only
/// scores above the k-th best so far are inspected. Items ascend, so an equal score never replaces an earlier
/// one.
std::vector<Scored> best_of(std::span<const float> scores, std::size_t k) {
  const float* row = scores.data();
  const std::int64_t n = std::ssize(scores);
  float threshold = -infinity;
  std::vector<Scored> best;
  for (std::int64_t at = find_block_above(row, 0, n, threshold); at < n;
       at = find_block_above(row, at, n, threshold)) {
    const std::int64_t end = std::min(n, at + 64);
    for (; at < end; ++at) {
      if (row[at] > threshold) best.push_back({row[at], static_cast<std::int32_t>(at)});
    }
    if (best.size() < std::max<std::size_t>(2 * k, k + 128)) continue;
    std::nth_element(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(k - 1), best.end(), better);
    best.resize(k);
    threshold = best.back().score;
  }
  const std::size_t found = std::min(k, best.size());
  std::partial_sort(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(found), best.end(), better);
  best.resize(found);
  return best;
}

/// Appends items that are neither masked nor in `best` until there are k. Their scores are minus infinity or
/// NaN.
void append_others(std::span<const float> scores, std::span<const std::int32_t> masked, std::size_t k,
                   std::vector<Scored>& best) {
  if (best.size() >= k) return;
  std::vector<bool> out(scores.size());
  for (const std::int32_t item : masked) out[item] = true;
  for (const Scored& s : best) out[s.item] = true;
  for (std::size_t i = 0; i < scores.size() && best.size() < k; ++i) {
    if (!out[i]) best.push_back({scores[i], static_cast<std::int32_t>(i)});
  }
}

}  // namespace

void Device::for_scores(const Matrix& hidden, const Batch& batch, const Parameters& parameters, Layer layer,
                        const std::function<void(std::int64_t, std::span<const float>)>& use,
                        const std::function<void(Range users)>& after) {
  const std::int64_t max_users = scored_users(batch.items);
  const std::int64_t items = parameters.layout().tensors[layer.weight].spec.columns;
  const std::int64_t stride = parameters.layout().tensors[layer.bias].range.size();
  const std::int64_t k = hidden.columns();
  const float* bias = parameters.weights(layer.bias);
  workspace_->scores.reserve(max_users * stride);
  float* rows = workspace_->scores.data();
  const float* all = gather_from_owners(batch, hidden, workspace_->gathered);
  for (std::int64_t first = 0; first < batch.users(); first += max_users) {
    const std::int64_t users = std::min(max_users, batch.users() - first);
    if (tiles_) {
      TileScores(*tiles_, *workspace_, {threads_, all, batch, parameters, layer, {first, first + users}})
          .write(rows, stride);
    } else {
      const void* a = operand(all + first * k, users * k, workspace_->hidden16);
      const void* b = parameters.operand(layer.weight);
      const MatmulSpec spec{
          .m = users, .n = tile_items, .k = k, .b_transposed = true, .ldc = stride, .operands = dtype()};
      parallel_for(threads_, stride / tile_items, [&](int thread, std::int64_t tile) {
        const std::int64_t item = tile * tile_items;
        engines_[thread]->run(spec, a, element(b, item * k), rows + item);
      });
    }
    parallel_for(threads_, users, [&](int, std::int64_t u) {
      float* row = rows + u * stride;
      add_bias(row, bias, Activation::identity, items);
      for (const std::int32_t own : batch.rows().row(first + u)) row[own] = -infinity;
      use(first + u, {row, static_cast<std::size_t>(items)});
    });
    if (after) after({first, first + users});
  }
}

void Device::rank_targets(const Matrix& hidden, const device::Batch& any_batch,
                          const device::UserRows& any_targets, Range rows, const Parameters& parameters,
                          Layer layer, device::TargetRanks& any_ranks) {
  const auto& batch = own<Batch>(any_batch);
  if (batch.users() == 0) return;
  const CsrView all_targets = own<UserRows>(any_targets).csr;
  const CsrView targets = all_targets.subset(rows);
  std::int32_t* const ranks =
      own<TargetRanks>(any_ranks).values.data() + (targets.offsets[0] - all_targets.offsets[0]);
  ModelParallelGroup& model_parallel = batch.model_parallel();
  const ItemSlice& mine = batch.items;
  const auto masked = static_cast<std::int32_t>(mine.all);
  const auto first_of = [&](std::int64_t u) { return targets.offsets[u] - targets.offsets[0]; };
  // The item slice that holds a target computes its score, each counts the items ahead of it, and counts are
  // added.
  std::vector<std::span<const float>> scores(static_cast<std::size_t>(batch.users()));
  const auto entries_of = [&](Range users) { return Range{first_of(users.begin), first_of(users.end)}; };
  const auto count_of_users = [&](Range users) {
    const Range entries = entries_of(users);
    const std::int64_t n = entries.size();
    std::vector<float> own_scores(static_cast<std::size_t>(n));
    std::vector<std::int32_t> counts(own_scores.size());
    const auto for_targets = [&](std::int64_t u, auto&& f) {
      for (std::int64_t e = first_of(u); e < first_of(u + 1); ++e) f(targets.columns[e], e - entries.begin);
    };
    for (std::int64_t u = users.begin; u < users.end; ++u) {
      for_targets(u, [&](std::int32_t item, std::int64_t e) {
        if (mine.holds(item)) own_scores[e] = scores[u][mine.local(item)];
      });
    }
    const std::vector<float> all_scores = gather_values(model_parallel, std::move(own_scores));
    parallel_for(threads_, users.size(), [&](int, std::int64_t i) {
      const std::int64_t u = users.begin + i;
      for_targets(u, [&](std::int32_t item, std::int64_t e) {
        const float score = all_scores[item % mine.step * n + e];
        counts[e] = count_ahead(item, score, scores[u], batch.rows().row(u), mine);
      });
    });
    const std::vector<std::int32_t> all_counts = gather_values(model_parallel, std::move(counts));
    const Range own = batch.own();
    for (std::int64_t u = std::max(users.begin, own.begin); u < std::min(users.end, own.end); ++u) {
      for_targets(u, [&](std::int32_t item, std::int64_t e) {
        std::int32_t rank = 0;
        for (int s = 0; s < model_parallel.count(); ++s) rank += all_counts[s * n + e];
        if (all_counts[item % mine.step * n + e] < 0) rank = masked;
        ranks[entries.begin + e] = rank;
      });
    }
  };
  for_scores(
      hidden, batch, parameters, layer, [&](std::int64_t u, std::span<const float> row) { scores[u] = row; },
      count_of_users);
}

void Device::top_k(const Matrix& hidden, const device::Batch& any_batch, const Parameters& parameters,
                   Layer layer, int k, std::span<std::int32_t> items, std::span<float> scores) {
  const auto& batch = cpu::own<Batch>(any_batch);
  const auto places = static_cast<std::size_t>(k);
  ModelParallelGroup& model_parallel = batch.model_parallel();
  std::ranges::fill(items, -1);
  std::ranges::fill(scores, -infinity);
  const auto write = [&](std::span<const Scored> best, std::int32_t* to_items, float* to_scores) {
    for (const Scored& s : best) {
      *to_items++ = s.item;
      *to_scores++ = s.score;
    }
  };
  // The lists of all users for the items of this item slice.
  const std::size_t size = static_cast<std::size_t>(batch.users()) * places;
  std::vector<std::int32_t> item_slice_items(size, -1);
  std::vector<float> item_slice_scores(size, -infinity);
  for_scores(hidden, batch, parameters, layer, [&](std::int64_t u, std::span<const float> all) {
    std::vector<Scored> best = best_of(all, places);
    append_others(all, batch.rows().row(u), places, best);
    for (Scored& s : best) s.item = static_cast<std::int32_t>(batch.items.global(s.item));
    write(best, item_slice_items.data() + u * k, item_slice_scores.data() + u * k);
  });
  const std::vector<std::int32_t> all_items = gather_values(model_parallel, std::move(item_slice_items));
  const std::vector<float> all_scores = gather_values(model_parallel, std::move(item_slice_scores));
  const Range own = batch.own();
  parallel_for(threads_, own.size(), [&](int, std::int64_t u) {
    std::vector<Scored> best;
    for (int s = 0; s < model_parallel.count(); ++s) {
      const std::size_t first = s * size + static_cast<std::size_t>(own.begin + u) * places;
      for (std::size_t i = first; i < first + places && all_items[i] >= 0; ++i) {
        best.push_back({all_scores[i], all_items[i]});
      }
    }
    const std::size_t found = std::min(places, best.size());
    std::partial_sort(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(found), best.end(),
                      better_or_nan_last);
    best.resize(found);
    write(best, items.data() + u * k, scores.data() + u * k);
  });
}

}  // namespace vaecf::cpu
