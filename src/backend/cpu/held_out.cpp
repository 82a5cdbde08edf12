#include <algorithm>
#include <limits>

#include "cpu_backend.hpp"
#include "scorer.hpp"
#include "vector_kernels.hpp"

namespace vaecf::cpu {
namespace {

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

}  // namespace vaecf::cpu
