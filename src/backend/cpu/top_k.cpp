#include <vaecf/math/metric_rows.hpp>

#include <algorithm>
#include <limits>
#include <vector>

#include "cpu_backend.hpp"
#include "parallel.hpp"
#include "scorer.hpp"
#include "tile_scores.hpp"
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

/// The first `count` unmasked items that are not among `better_ones`, all unmasked items whose scores are
/// above minus infinity: those whose scores are that, or no number (they count as that: sorting needs an
/// order).
std::vector<std::int32_t> hopeless_items(std::int64_t items, std::span<const std::int32_t> masked,
                                         std::span<const Scored> better_ones, std::size_t count) {
  std::vector<std::int32_t> left_out(masked.begin(), masked.end());
  for (const Scored& s : better_ones) left_out.push_back(s.item);
  std::ranges::sort(left_out);
  std::vector<std::int32_t> found;
  auto next = left_out.begin();
  for (std::int32_t i = 0; i < items && found.size() < count; ++i) {
    if (next != left_out.end() && *next == i) {
      ++next;
    } else {
      found.push_back(i);
    }
  }
  return found;
}

/// What top_k is asked for: (users, k) items and scores.
struct BestLists {
  std::size_t k;
  std::span<std::int32_t> items;
  std::span<float> scores;

  void put(std::int64_t user, std::size_t place, Scored s) const {
    items[static_cast<std::size_t>(user) * k + place] = s.item;
    scores[static_cast<std::size_t>(user) * k + place] = s.score;
  }
  void put(std::int64_t user, std::span<const Scored> best) const {
    for (std::size_t place = 0; place < best.size(); ++place) put(user, place, best[place]);
  }
};

/// Each thread sees other items, so a user's list is drawn from one of each.
void best_by_tiles(const TileScores& scores, int threads, const CsrView& masked, std::int64_t items,
                   std::int64_t first_user, const BestLists& lists) {
  const std::int64_t users = masked.rows();
  std::vector<BestScores> best(static_cast<std::size_t>(threads * users), BestScores(lists.k));
  scores.for_each_panel([&](int thread, std::int64_t u, std::int64_t first, std::span<const float> panel) {
    best[static_cast<std::size_t>(thread * users + u)].look_at(panel, first);
  });
  on_ranges(threads, users, 1, [&](int, Range part) {
    for (std::int64_t u = part.begin; u < part.end; ++u) {
      BestScores& mine = best[static_cast<std::size_t>(u)];
      for (int t = 1; t < threads; ++t) mine.add(best[static_cast<std::size_t>(t * users + u)]);
      mine.sort();
      lists.put(first_user + u, mine.sorted());
    }
  });
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> hopeless;
  for (std::int64_t u = 0; u < users; ++u) {
    const auto& found = best[static_cast<std::size_t>(u)].sorted();
    if (found.size() < lists.k) {
      const auto others = hopeless_items(items, masked.row(u), found, lists.k - found.size());
      hopeless.insert(hopeless.end(), others.begin(), others.end());
    }
    offsets.push_back(std::ssize(hopeless));
  }
  const std::vector<float> their_scores = scores.of({offsets, hopeless});
  for (std::int64_t u = 0; u < users; ++u) {
    std::size_t place = best[static_cast<std::size_t>(u)].sorted().size();
    for (auto i = static_cast<std::size_t>(offsets[u]); i < static_cast<std::size_t>(offsets[u + 1]); ++i) {
      lists.put(first_user + u, place++, {their_scores[i], hopeless[i]});
    }
  }
}

}  // namespace

void CpuBackend::top_k(const backend::Activations& hidden, const backend::Batch& batch,
                       const backend::Parameters& parameters, backend::Layer layer, int k,
                       std::span<std::int32_t> items, std::span<float> scores) {
  const CsrView masked = cpu(batch).rows();
  if (masked.rows() == 0) return;
  const std::int64_t all_items = cpu(parameters).layout().tensors[layer.weight].spec.columns;
  const BestLists lists{static_cast<std::size_t>(k), items, scores};
  std::ranges::fill(items, -1);
  std::ranges::fill(scores, -infinity);
  if (tiles_ && threads_ <= TileScores::most_threads) {
    for_slices(masked.rows(), slice_users, [&](Range users, bool, bool) {
      const TileScores panels(*tiles_, workspace_->tiles, threads_, cpu(hidden), cpu(batch), cpu(parameters),
                              layer, users);
      best_by_tiles(panels, threads_, masked.slice(users), all_items, users.begin, lists);
    });
    return;
  }
  Scorer(*this, cpu(hidden), cpu(batch), cpu(parameters), layer)
      .for_each_row([&](std::int64_t u, const float* row) {
        BestScores best(lists.k);
        best.look_at({row, static_cast<std::size_t>(all_items)}, 0);
        best.sort();
        std::size_t place = best.sorted().size();
        lists.put(u, best.sorted());
        if (place == lists.k) return;
        for (const std::int32_t i :
             hopeless_items(all_items, masked.row(u), best.sorted(), lists.k - place)) {
          lists.put(u, place++, {row[i], i});
        }
      });
}

}  // namespace vaecf::cpu
