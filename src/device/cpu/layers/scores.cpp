// Metrics and top-k lists, computed from the same loop over the scores of users.
#include <vaecf/device/cpu/device.hpp>
#include <vaecf/math/user_metrics.hpp>

#include <algorithm>
#include <limits>
#include <vector>

#include "device/cpu/layers/output_slice.hpp"

namespace vaecf::cpu {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// Scores without bias by the custom kernel of the output layer.
class TileScores : private TileSlice {
 public:
  TileScores(const TileKernels& kernels, Workspace& workspace, const OutputSlice& slice)
      : TileSlice(kernels, workspace, slice) {
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
      // Prefetches the weights of the next block.
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

/// Returns the rank of item `target`: the number of scores that rank ahead of its own. The user's own items,
/// `masked`, have the score minus infinity. They do not count, but they rank ahead of a target whose score is
/// minus infinity or NaN, so they are subtracted.
std::int32_t rank_of(std::int32_t target, std::span<const float> scores,
                     std::span<const std::int32_t> masked) {
  const float score = scores[static_cast<std::size_t>(target)];
  if (std::ranges::binary_search(masked, target)) return static_cast<std::int32_t>(scores.size());
  std::int64_t beating = count_ranked_ahead(scores.data(), std::ssize(scores), score, target);
  if (!(score > -infinity)) {
    beating -= std::ranges::count_if(
        masked, [&](std::int32_t item) { return math::ranks_ahead(-infinity, item, score, target); });
  }
  return static_cast<std::int32_t>(beating);
}

struct Scored {
  float score;
  std::int32_t item;
};
bool better(const Scored& a, const Scored& b) {
  return math::ranks_ahead(a.score, a.item, b.score, b.item);
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
/// NaN; NaN is treated as minus infinity, because sorting requires an order.
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

void Device::for_scores(const Activations& hidden, const Batch& batch, const Parameters& parameters,
                        device::Layer layer,
                        const std::function<void(std::int64_t, std::span<const float>)>& use) {
  // Maximum number of users whose scores are stored at the same time: 256 rows of ML-20M's items take 20 MB.
  constexpr std::int64_t max_users = 256;
  const std::int64_t k = hidden.columns();
  const auto items = static_cast<std::size_t>(parameters.layout().tensors[layer.weight].spec.columns);
  const std::int64_t stride = parameters.layout().tensors[layer.bias].range.size();
  const float* bias = parameters.weights(layer.bias);
  workspace_->scores.reserve(max_users * stride);
  float* rows = workspace_->scores.data();
  for (std::int64_t first = 0; first < hidden.rows(); first += max_users) {
    const std::int64_t users = std::min(max_users, hidden.rows() - first);
    if (tiles_) {
      TileScores(*tiles_, *workspace_, {threads_, hidden, batch, parameters, layer, {first, first + users}})
          .write(rows, stride);
    } else {
      const void* a = operand(hidden.row(first), users * k, workspace_->hidden16);
      const void* b = table_operand(parameters, layer.weight);
      const GemmSpec spec{.m = users,
                          .n = tile_items,
                          .k = k,
                          .lda = k,
                          .ldb = k,
                          .ldc = stride,
                          .b_transposed = true,
                          .bf16 = bf16()};
      parallel_for(threads_, stride / tile_items, [&](int thread, std::int64_t tile) {
        const std::int64_t item = tile * tile_items;
        engines_[thread]->run(spec, a, element(b, item * k), rows + item);
      });
    }
    parallel_for(threads_, users, [&](int, std::int64_t u) {
      const std::span<float> row(rows + u * stride, items);
      add_bias(row.data(), bias, device::Activation::identity, std::ssize(row));
      for (const std::int32_t own : batch.rows().row(first + u)) row[own] = -infinity;
      use(first + u, row);
    });
  }
}

void Device::rank_targets(const Activations& hidden, const Batch& batch, CsrView targets,
                          const Parameters& parameters, device::Layer layer, std::span<std::int32_t> ranks) {
  for_scores(hidden, batch, parameters, layer, [&](std::int64_t u, std::span<const float> scores) {
    std::int32_t* to = ranks.data() + (targets.offsets[u] - targets.offsets[0]);
    for (const std::int32_t item : targets.row(u)) *to++ = rank_of(item, scores, batch.rows().row(u));
  });
}

void Device::compute_metrics(const Activations& hidden, const Batch& batch, const UserRows& targets,
                             Range rows, const Parameters& parameters, device::Layer layer,
                             std::span<const math::Metric> metrics, MetricValues& values) {
  const CsrView wanted = targets.csr.slice(rows);
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(wanted.entries()));
  rank_targets(hidden, batch, wanted, parameters, layer, ranks);
  auto next = ranks.begin();
  for (std::int64_t row = 0; row < wanted.rows(); ++row) {
    const std::span<const std::int32_t> mine(next, static_cast<std::size_t>(wanted.row_size(row)));
    next += wanted.row_size(row);
    if (mine.empty()) continue;
    double* value = values.values.data() + rows.begin + row;
    for (const math::Metric& metric : metrics) {
      *value = math::metric_of_user(metric, mine, targets.items.all);
      value += values.users;
    }
  }
}

void Device::top_k(const Activations& hidden, const Batch& batch, const Parameters& parameters,
                   device::Layer layer, int k, std::span<std::int32_t> items, std::span<float> scores) {
  const auto places = static_cast<std::size_t>(k);
  std::ranges::fill(items, -1);
  std::ranges::fill(scores, -infinity);
  for_scores(hidden, batch, parameters, layer, [&](std::int64_t u, std::span<const float> all) {
    std::vector<Scored> best = best_of(all, places);
    append_others(all, batch.rows().row(u), places, best);
    std::size_t to = static_cast<std::size_t>(u) * places;
    for (const Scored& s : best) {
      items[to] = s.item;
      scores[to++] = s.score;
    }
  });
}

}  // namespace vaecf::cpu
