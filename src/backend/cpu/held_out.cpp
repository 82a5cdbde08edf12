#include <vaecf/backend/cpu/device.hpp>
#include <vaecf/math/metric_rows.hpp>

#include <algorithm>
#include <limits>

#include "parallel.hpp"
#include "scores.hpp"
#include "vector_kernels.hpp"

namespace vaecf::cpu {
namespace {

/// The rank of a target that `beating` scores beat, those of masked items, minus infinity all, among them:
/// they do if its own is no better, or no number.
std::int32_t rank_of(std::int32_t target, float score, std::int64_t beating,
                     std::span<const std::int32_t> masked, std::int64_t items) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  if (std::ranges::binary_search(masked, target)) return static_cast<std::int32_t>(items);
  if (!(score > -infinity)) {
    beating -= std::ranges::count_if(
        masked, [&](std::int32_t item) { return math::beats(-infinity, item, score, target); });
  }
  return static_cast<std::int32_t>(beating);
}

}  // namespace

// The targets' scores first, then, panel by panel, how many scores beat them.
void Device::rank_held_out(const Activations& hidden, const Batch& batch, CsrView targets,
                           const Parameters& parameters, backend::Layer layer,
                           std::span<std::int32_t> ranks) {
  const std::int64_t items = parameters.layout().tensors[layer.weight].spec.columns;
  for_scores(hidden, batch, parameters, layer, [&](const Scores& scores, Range users) {
    const CsrView masked = batch.rows().slice(users);
    const CsrView wanted = targets.slice(users);
    const auto entry_of = [&](std::int64_t u) { return wanted.offsets[u] - wanted.offsets[0]; };
    const std::vector<float> own = scores.of(wanted);
    std::vector<std::vector<std::int32_t>> beating(static_cast<std::size_t>(scores.parts()));
    for (auto& counts : beating) counts.resize(own.size());
    scores.for_each_panel([&](int part, std::int64_t u, std::int64_t first, std::span<const float> panel) {
      std::int64_t entry = entry_of(u);
      for (const std::int32_t item : wanted.row(u)) {
        beating[part][entry] += static_cast<std::int32_t>(
            count_beating(panel.data(), std::ssize(panel), own[entry], item - first));
        ++entry;
      }
    });
    std::int32_t* to = ranks.data() + (targets.offsets[users.begin] - targets.offsets[0]);
    on_each(threads_, users.size(), [&](int, std::int64_t u) {
      std::int64_t entry = entry_of(u);
      for (const std::int32_t item : wanted.row(u)) {
        std::int64_t count = 0;
        for (const auto& counts : beating) count += counts[entry];
        to[entry] = rank_of(item, own[entry], count, masked.row(u), items);
        ++entry;
      }
    });
  });
}

void Device::add_metrics(const Activations& hidden, const Batch& batch, const UserRows& targets, Range rows,
                         const Parameters& parameters, backend::Layer layer,
                         std::span<const math::Metric> metrics, MetricTotals& totals) {
  const CsrView wanted = targets.csr.slice(rows);
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(wanted.entries()));
  rank_held_out(hidden, batch, wanted, parameters, layer, ranks);
  auto next = ranks.begin();
  for (std::int64_t row = 0; row < wanted.rows(); ++row) {
    const std::span<const std::int32_t> mine(next, static_cast<std::size_t>(wanted.row_size(row)));
    next += wanted.row_size(row);
    if (mine.empty()) continue;
    for (std::size_t m = 0; m < metrics.size(); ++m) {
      totals.sums[m].add(math::metric_of_user(metrics[m], mine, targets.items));
    }
  }
}

}  // namespace vaecf::cpu
