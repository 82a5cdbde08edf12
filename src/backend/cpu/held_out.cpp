#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cpu_backend.hpp"
#include "parallel.hpp"
#include "vector_kernels.hpp"
#include "workspace.hpp"

namespace vaecf::cpu {
namespace {

// Users whose scores exist at a time: 256 rows of ML-20M's items are 20 MB.
constexpr std::int64_t scored_users = 256;

CsrView rows_of(CsrView all, Range rows) {
  if (rows.size() == 0) return {};
  const auto first = static_cast<std::size_t>(rows.begin);
  const std::int64_t begin = all.offsets[first];
  const std::int64_t end = all.offsets[static_cast<std::size_t>(rows.end)];
  return {all.offsets.subspan(first, static_cast<std::size_t>(rows.size()) + 1),
          all.columns.subspan(static_cast<std::size_t>(begin - all.offsets[0]),
                              static_cast<std::size_t>(end - begin))};
}

}  // namespace

/// Scores of a few users at a time, user-major, handed out row by row with the user's own items masked.
class Scorer {
 public:
  Scorer(CpuBackend& backend, const CpuActivations& hidden, const CpuBatch& batch,
         const CpuParameters& parameters, backend::Layer layer)
      : b_(backend),
        w_(*backend.workspace_),
        hidden_(hidden),
        batch_(batch),
        k_(hidden.columns()),
        items_(parameters.layout().tensors[layer.weight].spec.columns),
        padded_((items_ + tile_items - 1) / tile_items * tile_items),
        bias_(parameters.weights(layer.bias)) {
    weights_ = b_.bf16() ? static_cast<const void*>(parameters.shadow().data())
                         : static_cast<const void*>(parameters.weights(layer.weight));
  }

  std::int64_t items() const { return items_; }

  /// use(user, scores (I)) for every user of the batch, users of a slice in parallel.
  template <class Use>
  void for_each_row(Use&& use) {
    for (std::int64_t first = 0; first < hidden_.rows(); first += scored_users) {
      const std::int64_t count = std::min(scored_users, hidden_.rows() - first);
      multiply(first, count);
      on_ranges(b_.threads_, count, 1, [&](int, Range part) {
        for (std::int64_t u = part.begin; u < part.end; ++u) {
          float* row = w_.scores.data() + u * padded_;
          add_bias(row, bias_, false, items_);
          for (const std::int32_t item : batch_.rows().row(first + u)) {
            row[item] = -std::numeric_limits<float>::infinity();
          }
          use(first + u, row);
        }
      });
    }
  }

 private:
  void multiply(std::int64_t first, std::int64_t count) {
    w_.scores.reserve(scored_users * padded_);
    const bool bf16 = b_.bf16();
    const void* users = hidden_.row(first);
    if (bf16) {
      w_.hidden16.reserve(scored_users * k_);
      to_bf16(hidden_.row(first), w_.hidden16.data(), count * k_);
      users = w_.hidden16.data();
    }
    const ProductSpec spec{.m = count,
                           .n = tile_items,
                           .k = k_,
                           .lda = k_,
                           .ldb = k_,
                           .ldc = padded_,
                           .b_transposed = true,
                           .bf16 = bf16};
    on_ranges(b_.threads_, padded_ / tile_items, 1, [&](int thread, Range tiles) {
      for (std::int64_t t = tiles.begin; t < tiles.end; ++t) {
        const std::int64_t offset = t * tile_items * k_ * (bf16 ? 2 : 4);
        b_.engines_[thread]->run(spec, users, static_cast<const char*>(weights_) + offset,
                                 w_.scores.data() + t * tile_items);
      }
    });
  }

  CpuBackend& b_;
  Workspace& w_;
  const CpuActivations& hidden_;
  const CpuBatch& batch_;
  std::int64_t k_;
  std::int64_t items_;
  std::int64_t padded_;
  const float* bias_;
  const void* weights_;
};

void CpuBackend::rank_held_out(const backend::Activations& hidden, const backend::Batch& batch,
                               CsrView targets, const backend::Parameters& parameters, backend::Layer layer,
                               std::span<std::int32_t> ranks) {
  Scorer scorer(*this, cpu(hidden), cpu(batch), cpu(parameters), layer);
  scorer.for_each_row([&](std::int64_t u, const float* scores) {
    const auto wanted = targets.row(u);
    std::int32_t* to = ranks.data() + (targets.offsets[u] - targets.offsets[0]);
    const auto masked = cpu(batch).rows().row(u);
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      const std::int32_t item = wanted[k];
      const float score = scores[item];
      if (std::binary_search(masked.begin(), masked.end(), item)) {
        to[k] = static_cast<std::int32_t>(scorer.items());
        continue;
      }
      std::int64_t rank = count_beating(scores, scorer.items(), score, item);
      // Masked items count when the target's own score is minus infinity or no number.
      if (!(score > -std::numeric_limits<float>::infinity())) {
        for (const std::int32_t m : masked) rank -= !(score == scores[m]) || m < item ? 1 : 0;
      }
      to[k] = static_cast<std::int32_t>(rank);
    }
  });
}

std::unique_ptr<backend::MetricTotals> CpuBackend::make_metric_totals(std::size_t metrics) {
  return std::make_unique<CpuMetricTotals>(metrics);
}

void CpuBackend::add_metrics(const backend::Activations& hidden, const backend::Batch& batch,
                             const backend::UserRows& targets, Range rows,
                             const backend::Parameters& parameters, backend::Layer layer,
                             std::span<const math::Metric> metrics, backend::MetricTotals& totals) {
  const auto& from = static_cast<const CpuRows&>(targets);
  const CsrView wanted = rows_of(from.csr, rows);
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(wanted.entries()));
  rank_held_out(hidden, batch, wanted, parameters, layer, ranks);
  auto& sums = static_cast<CpuMetricTotals&>(totals).sums;
  auto next = ranks.begin();
  for (std::int64_t row = 0; row < wanted.rows(); ++row) {
    const std::span<const std::int32_t> mine(next, static_cast<std::size_t>(wanted.row_size(row)));
    next += wanted.row_size(row);
    if (mine.empty()) continue;
    for (std::size_t m = 0; m < metrics.size(); ++m) {
      sums[m].add(math::metric_of_user(metrics[m], mine, from.items));
    }
  }
}

std::vector<math::MetricSums> CpuBackend::read_metrics(backend::MetricTotals& totals) {
  return static_cast<CpuMetricTotals&>(totals).sums;
}

void CpuBackend::top_k(const backend::Activations& hidden, const backend::Batch& batch,
                       const backend::Parameters& parameters, backend::Layer layer, int k,
                       std::span<std::int32_t> items, std::span<float> scores) {
  Scorer scorer(*this, cpu(hidden), cpu(batch), cpu(parameters), layer);
  scorer.for_each_row([&](std::int64_t u, const float* row) {
    const auto masked = cpu(batch).rows().row(u);
    std::vector<std::int32_t> candidates;
    candidates.reserve(static_cast<std::size_t>(scorer.items()));
    auto next_masked = masked.begin();
    for (std::int32_t i = 0; i < scorer.items(); ++i) {
      if (next_masked != masked.end() && *next_masked == i)
        ++next_masked;
      else
        candidates.push_back(i);
    }
    // A score that is no number comes last: sorting needs an order.
    const auto score = [row](std::int32_t i) {
      return std::isnan(row[i]) ? -std::numeric_limits<float>::infinity() : row[i];
    };
    const auto better = [score](std::int32_t a, std::int32_t b) {
      return score(a) != score(b) ? score(a) > score(b) : a < b;
    };
    const std::size_t found = std::min(candidates.size(), static_cast<std::size_t>(k));
    std::partial_sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(found),
                      candidates.end(), better);
    for (int place = 0; place < k; ++place) {
      const bool filled = static_cast<std::size_t>(place) < found;
      items[u * k + place] = filled ? candidates[place] : -1;
      scores[u * k + place] = filled ? row[candidates[place]] : -std::numeric_limits<float>::infinity();
    }
  });
}

}  // namespace vaecf::cpu
