#include <vaecf/backend/cpu/device.hpp>
#include <vaecf/math/metric_rows.hpp>

#include <algorithm>
#include <limits>
#include <vector>

#include "parallel.hpp"
#include "scores.hpp"
#include "vector_kernels.hpp"

namespace vaecf::cpu {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

struct Scored {
  float score;
  std::int32_t item;
};
bool better(const Scored& a, const Scored& b) {
  return math::beats(a.score, a.item, b.score, b.item);
}

/// The k best scores above minus infinity of those that it is shown, fewer where there are fewer. Only scores
/// above the k-th best so far are looked at, and items ascend, so an equal score comes too late anyway.
class BestScores {
 public:
  explicit BestScores(std::size_t k) : k_(k) {}

  /// scores[i] is that of item first + i.
  void look_at(std::span<const float> scores, std::int64_t first) {
    const float* row = scores.data();
    const std::int64_t n = std::ssize(scores);
    for (std::int64_t at = skip_to_above(row, 0, n, threshold_); at < n;
         at = skip_to_above(row, at, n, threshold_)) {
      const std::int64_t end = std::min(n, at + 64);
      for (; at < end; ++at) {
        if (row[at] > threshold_) best_.push_back({row[at], static_cast<std::int32_t>(first + at)});
      }
      if (best_.size() < std::max<std::size_t>(2 * k_, k_ + 128)) continue;
      std::nth_element(best_.begin(), best_.begin() + static_cast<std::ptrdiff_t>(k_ - 1), best_.end(),
                       better);
      best_.resize(k_);
      threshold_ = best_.back().score;
    }
  }

  /// Takes over what another has of other items.
  void add(BestScores& other) {
    best_.insert(best_.end(), other.best_.begin(), other.best_.end());
    other.best_ = {};
  }

  /// The end of it: best first.
  void sort() {
    const std::size_t found = std::min(k_, best_.size());
    std::partial_sort(best_.begin(), best_.begin() + static_cast<std::ptrdiff_t>(found), best_.end(), better);
    best_.resize(found);
  }
  const std::vector<Scored>& sorted() const { return best_; }

 private:
  std::size_t k_;
  float threshold_ = -infinity;
  std::vector<Scored> best_;
};

/// Appends the first `count` items that are neither masked nor `found`, all unmasked items whose scores are
/// above minus infinity, to `to`: their scores are minus infinity or no number, which counts as that, since
/// sorting needs an order.
void append_others(std::int64_t items, std::span<const std::int32_t> masked, std::span<const Scored> found,
                   std::size_t count, std::vector<std::int32_t>& to) {
  if (count == 0) return;
  std::vector<bool> out(static_cast<std::size_t>(items));
  for (const std::int32_t item : masked) out[item] = true;
  for (const Scored& s : found) out[s.item] = true;
  for (std::int32_t i = 0; i < items && count > 0; ++i) {
    if (out[i]) continue;
    to.push_back(i);
    --count;
  }
}

}  // namespace

void Device::top_k(const Activations& hidden, const Batch& batch, const Parameters& parameters,
                   backend::Layer layer, int k, std::span<std::int32_t> items, std::span<float> scores) {
  const auto places = static_cast<std::size_t>(k);
  const std::int64_t all_items = parameters.layout().tensors[layer.weight].spec.columns;
  std::ranges::fill(items, -1);
  std::ranges::fill(scores, -infinity);
  for_scores(hidden, batch, parameters, layer, [&](const Scores& all, Range users) {
    const std::int64_t n = users.size();
    // A list per part and user, then one per user.
    std::vector<BestScores> best(static_cast<std::size_t>(all.parts() * n), BestScores(places));
    all.for_each_panel([&](int part, std::int64_t u, std::int64_t first, std::span<const float> panel) {
      best[part * n + u].look_at(panel, first);
    });
    on_each(threads_, n, [&](int, std::int64_t u) {
      for (int part = 1; part < all.parts(); ++part) best[u].add(best[part * n + u]);
      best[u].sort();
    });
    std::vector<std::int64_t> offsets{0};
    std::vector<std::int32_t> others;
    for (std::int64_t u = 0; u < n; ++u) {
      const auto& found = best[u].sorted();
      append_others(all_items, batch.rows().row(users.begin + u), found, places - found.size(), others);
      offsets.push_back(std::ssize(others));
    }
    const std::vector<float> their_scores = all.of({offsets, others});
    for (std::int64_t u = 0; u < n; ++u) {
      std::size_t to = static_cast<std::size_t>(users.begin + u) * places;
      const auto put = [&](std::int32_t item, float score) {
        items[to] = item;
        scores[to++] = score;
      };
      for (const Scored& s : best[u].sorted()) put(s.item, s.score);
      for (std::int64_t i = offsets[u]; i < offsets[u + 1]; ++i) put(others[i], their_scores[i]);
    }
  });
}

}  // namespace vaecf::cpu
