#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cpu_backend.hpp"
#include "scorer.hpp"
#include "vector_kernels.hpp"

namespace vaecf::cpu {
namespace {

struct Scored {
  float score;
  std::int32_t item;
};
bool better(const Scored& a, const Scored& b) {
  return a.score != b.score ? a.score > b.score : a.item < b.item;
}

/// The k best scores above minus infinity of a row, best first; fewer where there are fewer. Only scores
/// above the k-th best so far are looked at, and items ascend, so an equal score comes too late anyway.
void find_best(const float* row, std::int64_t items, std::size_t k, std::vector<Scored>& best) {
  const std::size_t capacity = std::max<std::size_t>(2 * k, k + 128);
  float threshold = -std::numeric_limits<float>::infinity();
  best.clear();
  for (std::int64_t at = skip_to_above(row, 0, items, threshold); at < items;
       at = skip_to_above(row, at, items, threshold)) {
    const std::int64_t end = std::min(items, at + 64);
    for (; at < end; ++at) {
      if (row[at] > threshold) best.push_back({row[at], static_cast<std::int32_t>(at)});
    }
    if (best.size() < capacity) continue;
    std::nth_element(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(k - 1), best.end(), better);
    best.resize(k);
    threshold = best.back().score;
  }
  const std::size_t found = std::min(k, best.size());
  std::partial_sort(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(found), best.end(), better);
  best.resize(found);
}

/// Adds the unmasked items whose scores are minus infinity, or no number (they count as that: sorting needs
/// an order), until there are k.
void add_hopeless(const float* row, std::int64_t items, std::span<const std::int32_t> masked, std::size_t k,
                  std::vector<Scored>& best) {
  auto next_masked = masked.begin();
  for (std::int32_t i = 0; i < items && best.size() < k; ++i) {
    if (next_masked != masked.end() && *next_masked == i) {
      ++next_masked;
    } else if (!(row[i] > -std::numeric_limits<float>::infinity())) {
      best.push_back({row[i], i});
    }
  }
}

}  // namespace

void CpuBackend::top_k(const backend::Activations& hidden, const backend::Batch& batch,
                       const backend::Parameters& parameters, backend::Layer layer, int k,
                       std::span<std::int32_t> items, std::span<float> scores) {
  Scorer scorer(*this, cpu(hidden), cpu(batch), cpu(parameters), layer);
  const auto places = static_cast<std::size_t>(k);
  scorer.for_each_row([&](std::int64_t u, const float* row) {
    std::vector<Scored> best;
    find_best(row, scorer.items(), places, best);
    if (best.size() < places) add_hopeless(row, scorer.items(), cpu(batch).rows().row(u), places, best);
    best.resize(places, {-std::numeric_limits<float>::infinity(), -1});
    for (std::size_t place = 0; place < places; ++place) {
      items[static_cast<std::size_t>(u) * places + place] = best[place].item;
      scores[static_cast<std::size_t>(u) * places + place] = best[place].score;
    }
  });
}

}  // namespace vaecf::cpu
