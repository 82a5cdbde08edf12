#include "train/evaluate/item_models.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/math/user_metrics.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "train/evaluate/popularity.hpp"
#include "train/run/host_info.hpp"

namespace vaecf::train {
namespace {

/// Calls work(i) for each i of `range` on `threads` threads, in chunks scheduled dynamically. Rethrows the
/// first exception.
template <class Work>
void parallel_for(int threads, Range range, const Work& work) {
  constexpr std::int64_t chunk = 16;
  std::atomic<std::int64_t> next{range.begin};
  std::exception_ptr error;
  std::mutex mutex;
  const auto run = [&] {
    try {
      for (std::int64_t begin = next.fetch_add(chunk); begin < range.end; begin = next.fetch_add(chunk))
        for (std::int64_t i = begin; i < std::min(range.end, begin + chunk); ++i) work(i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (int t = 1; t < threads; ++t) others.emplace_back(run);
    run();
  }
  if (error) std::rethrow_exception(error);
}

/// Adds row `item` of X'X to `row` (items).
void add_gram_row(const Interactions& train, std::int64_t item, std::span<float> row) {
  for (const std::int32_t user : train.items.view().row(item))
    for (const std::int32_t other : train.users.view().row(user))
      row[static_cast<std::size_t>(other)] += 1.0F;
}

}  // namespace

Interactions make_interactions(Csr users, std::int64_t items) {
  Interactions train{std::move(users), {}};
  Csr& by_item = train.items;
  by_item.offsets.assign(static_cast<std::size_t>(items) + 1, 0);
  for (const std::int32_t item : train.users.columns) ++by_item.offsets[static_cast<std::size_t>(item) + 1];
  for (std::size_t i = 1; i < by_item.offsets.size(); ++i) by_item.offsets[i] += by_item.offsets[i - 1];
  by_item.columns.resize(train.users.columns.size());
  std::vector<std::int64_t> next(by_item.offsets.begin(), by_item.offsets.end() - 1);
  const CsrView rows = train.users.view();
  for (std::int64_t user = 0; user < rows.rows(); ++user)
    for (const std::int32_t item : rows.row(user))
      by_item.columns[static_cast<std::size_t>(next[static_cast<std::size_t>(item)]++)] =
          static_cast<std::int32_t>(user);
  return train;
}

Interactions read_interactions(const io::DatasetFile& dataset, const RunContext& context) {
  constexpr std::int64_t block_rows = 1 << 14;
  Csr users;
  const std::int64_t rows = dataset.rows("train");
  for (std::int64_t begin = 0; begin < rows; begin += block_rows) {
    const Csr block = dataset.read_rows("train", {begin, std::min(rows, begin + block_rows)});
    const std::int64_t before = users.offsets.back() - block.offsets.front();
    for (std::size_t r = 1; r < block.offsets.size(); ++r) users.offsets.push_back(before + block.offsets[r]);
    users.columns.insert(users.columns.end(), block.columns.begin(), block.columns.end());
    context.communicator.activity().note_progress();
  }
  return make_interactions(std::move(users), dataset.items());
}

Ease::Ease(const Interactions& train, double l2, double dropout, const RunContext& context, int threads)
    : items_(train.items.rows()) {
  comm::Communicator& ranks = context.communicator;
  solved_ = std::make_unique<cpu::SpdInverse>(items_, ranks.rank(), ranks.size(), threads);
  const Range own = solved_->rows_of(ranks.rank());
  parallel_for(threads, own, [&](std::int64_t i) {
    const std::span<float> row = solved_->row(i);
    add_gram_row(train, i, row);
    float& diagonal = row[static_cast<std::size_t>(i)];
    diagonal = static_cast<float>(diagonal + l2 + diagonal * dropout / (1.0 - dropout));
  });
  ranks.activity().note_progress();
  context.progress.begin(format("EASE, {} items, l2 {:g}, dropout {:g}", items_, l2, dropout), 0, "blocks");
  const bool definite =
      solved_->invert([&](std::span<float> values, int root) { ranks.broadcast(values, root); },
                      [&](std::int64_t done, std::int64_t) {
                        ranks.activity().note_progress();
                        context.progress.update(done);
                      });
  context.progress.end();
  if (!definite) {
    throw InputError(
        format("model.ease.l2: with {:g} the matrix of EASE is not positive definite in fp32; "
               "use a larger value",
               l2));
  }
  if (ranks.size() > 1) gather_inverse(ranks);
  for (std::int64_t j = 0; j < items_; ++j) diagonal_.push_back(row(j)[static_cast<std::size_t>(j)]);
}

void Ease::gather_inverse(comm::Communicator& ranks) {
  inverse_.resize(items_ * items_);
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const Range rows = solved_->rows_of(rank);
    const std::span<float> all(inverse_.data() + rows.begin * items_,
                               static_cast<std::size_t>(rows.size() * items_));
    if (rank == ranks.rank())
      for (std::int64_t i = rows.begin; i < rows.end; ++i)
        std::ranges::copy(solved_->row(i), all.begin() + (i - rows.begin) * items_);
    ranks.broadcast(all, rank);
  }
  solved_.reset();
}

std::span<const float> Ease::row(std::int64_t i) const {
  if (solved_) return solved_->row(i);
  return {inverse_.data() + i * items_, static_cast<std::size_t>(items_)};
}

void Ease::score(std::span<const std::int32_t> history, std::span<float> scores) const {
  // score_j = -(x P)_j / P_jj, which is x B for every j that is not in the history.
  std::ranges::fill(scores, 0.0F);
  for (const std::int32_t item : history) {
    const std::span<const float> weights = row(item);
    for (std::size_t j = 0; j < scores.size(); ++j) scores[j] -= weights[j];
  }
  for (std::size_t j = 0; j < scores.size(); ++j) scores[j] /= diagonal_[j];
}

ItemKnn::ItemKnn(const Interactions& train, const model::ItemKnnOptions& options, const RunContext& context,
                 int threads)
    : targets_(static_cast<std::size_t>(train.items.rows())) {
  comm::Communicator& ranks = context.communicator;
  const std::int64_t items = train.items.rows();
  const std::int64_t kept = std::min(options.neighbors, items);
  const CsrView users = train.items.view();
  const bool per_source = options.per == model::NeighborsPer::source;
  const double power = options.source_power;
  // Ranks own equal parts of the items; the last part may be padded. Unused neighbors have index -1.
  const std::int64_t part = (items + ranks.size() - 1) / ranks.size();
  const auto size = static_cast<std::size_t>(part * kept);
  std::vector<std::int32_t> neighbors(size, -1);
  std::vector<float> similarities(size, 0.0F);
  const Range own{std::min(items, part * ranks.rank()), std::min(items, part * (ranks.rank() + 1))};
  parallel_for(threads, own, [&](std::int64_t i) {
    // Only the items that share a user with item i are visited, so that large catalogs take no longer.
    thread_local std::vector<float> row;
    row.resize(static_cast<std::size_t>(items), 0.0F);
    std::vector<std::int32_t> others;
    for (const std::int32_t user : users.row(i))
      for (const std::int32_t other : train.users.view().row(user))
        if (row[static_cast<std::size_t>(other)]++ == 0.0F) others.push_back(other);
    const auto own_users = static_cast<double>(users.row_size(i));
    std::vector<std::pair<std::int32_t, float>> all;
    for (const std::int32_t j : others) {
      const float together = std::exchange(row[static_cast<std::size_t>(j)], 0.0F);
      if (j == i) continue;
      const auto other_users = static_cast<double>(users.row_size(j));
      const double scale = per_source ? std::pow(own_users, power) * std::pow(other_users, 1.0 - power)
                                      : std::pow(other_users, power) * std::pow(own_users, 1.0 - power);
      all.emplace_back(j, static_cast<float>(together / (scale + options.shrink + 1e-6)));
    }
    const auto count = std::min(static_cast<std::size_t>(kept), all.size());
    std::ranges::partial_sort(
        all, all.begin() + static_cast<std::ptrdiff_t>(count),
        [](const auto& a, const auto& b) { return math::ranks_ahead(a.second, a.first, b.second, b.first); });
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t slot = static_cast<std::size_t>((i - own.begin) * kept) + k;
      std::tie(neighbors[slot], similarities[slot]) = all[k];
    }
  });
  ranks.activity().note_progress();
  for (int rank = 0; rank < ranks.size(); ++rank) {
    std::vector<std::int32_t> their_neighbors = neighbors;
    std::vector<float> their_similarities = similarities;
    ranks.broadcast(std::span(their_neighbors), rank);
    ranks.broadcast(std::span(their_similarities), rank);
    for (std::size_t slot = 0; slot < size; ++slot) {
      const auto item = static_cast<std::int32_t>(part * rank + static_cast<std::int64_t>(slot) / kept);
      const std::int32_t neighbor = their_neighbors[slot];
      if (neighbor < 0) continue;
      const std::int32_t source = per_source ? item : neighbor;
      targets_[static_cast<std::size_t>(source)].emplace_back(per_source ? neighbor : item,
                                                              their_similarities[slot]);
    }
  }
}

void ItemKnn::score(std::span<const std::int32_t> history, std::span<float> scores) const {
  std::ranges::fill(scores, 0.0F);
  for (const std::int32_t item : history)
    for (const auto& [target, similarity] : targets_[static_cast<std::size_t>(item)])
      scores[static_cast<std::size_t>(target)] += similarity;
}

EvaluationResult evaluate(Evaluator& evaluator, const ItemModel& model, std::int64_t items, int threads) {
  const CsrView seen = evaluator.held_out().fold_in.view();
  const CsrView targets = evaluator.held_out().targets.view();
  const auto score = [&](std::int64_t row) {
    std::vector<float> scores(static_cast<std::size_t>(items));
    model.score(seen.row(row), scores);
    for (const std::int32_t item : seen.row(row))
      scores[static_cast<std::size_t>(item)] = -std::numeric_limits<float>::infinity();
    return scores;
  };
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(targets.entries()));
  const auto ranks_of = [&](std::int64_t row) {
    return std::span(ranks).subspan(static_cast<std::size_t>(targets.offsets[row] - targets.offsets[0]),
                                    static_cast<std::size_t>(targets.row_size(row)));
  };
  parallel_for(threads, {0, targets.rows()}, [&](std::int64_t row) {
    if (targets.row_size(row) == 0) return;
    const std::vector<float> scores = score(row);
    const std::span<std::int32_t> result = ranks_of(row);
    const auto is_ahead = [&](std::int64_t a, std::int64_t b) {
      return math::ranks_ahead(scores[static_cast<std::size_t>(a)], a, scores[static_cast<std::size_t>(b)],
                               b);
    };
    // The positions of the targets, best first; each item is ahead of all targets from some position on.
    std::vector<std::size_t> order(result.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto target = [&](std::size_t position) { return targets.row(row)[position]; };
    std::ranges::sort(order, [&](std::size_t a, std::size_t b) { return is_ahead(target(a), target(b)); });
    std::vector<std::int32_t> first_behind(result.size() + 1, 0);
    for (std::int64_t j = 0; j < items; ++j) {
      const auto found = std::ranges::partition_point(
          order, [&](std::size_t position) { return !is_ahead(j, target(position)); });
      ++first_behind[static_cast<std::size_t>(found - order.begin())];
    }
    std::int32_t ahead = 0;
    for (std::size_t k = 0; k < order.size(); ++k) {
      ahead += first_behind[k];
      // A target in the fold-in is masked.
      const bool masked = std::isinf(scores[static_cast<std::size_t>(target(order[k]))]);
      result[order[k]] = masked ? static_cast<std::int32_t>(items) : ahead;
    }
  });
  return evaluator.evaluate(
      [&](std::int64_t row, std::span<std::int32_t> result) {
        std::ranges::copy(ranks_of(row), result.begin());
      },
      [&](std::int64_t row, std::span<std::int32_t> list) {
        const std::vector<float> scores = score(row);
        std::vector<std::int32_t> order;
        for (std::int64_t j = 0; j < items; ++j)
          if (!std::isinf(scores[static_cast<std::size_t>(j)])) order.push_back(static_cast<std::int32_t>(j));
        const std::size_t count = std::min(list.size(), order.size());
        std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(count),
                                  [&](std::int32_t a, std::int32_t b) {
                                    return math::ranks_ahead(scores[static_cast<std::size_t>(a)], a,
                                                             scores[static_cast<std::size_t>(b)], b);
                                  });
        std::copy_n(order.begin(), count, list.begin());
        return count;
      });
}

namespace {

/// Returns whether EASE is a baseline by default: if a solution takes at most 10 s, and the matrix at most a
/// quarter of the free memory. Collective.
bool ease_is_cheap(std::int64_t items, comm::Communicator& ranks, int threads) {
  constexpr double max_seconds = 10.0;
  const auto n = static_cast<double>(items);
  const double free = ranks.all_reduce(free_memory_bytes() / ranks.local_size(), comm::Reduction::min);
  if (4.0 * n * n > free / 4.0) return false;
  constexpr std::int64_t probe = 2048;
  if (items <= probe) return true;
  cpu::SpdInverse identity(probe, 0, 1, threads);
  for (std::int64_t i = 0; i < probe; ++i) identity.row(i)[static_cast<std::size_t>(i)] = 1.0F;
  const auto begin = Clock::now();
  identity.invert({}, [](std::int64_t, std::int64_t) {});
  const double slowest = ranks.all_reduce(seconds_since(begin), comm::Reduction::max);
  return slowest * std::pow(n / probe, 3.0) / ranks.size() <= max_seconds;
}

}  // namespace

std::vector<Baseline> evaluate_baselines(const TrainingConfig& options, const io::DatasetFile& dataset,
                                         Evaluator& evaluator, const RunContext& context) {
  const auto selected = [&](const char* name) {
    return std::ranges::find(options.validation.baselines, name) != options.validation.baselines.end();
  };
  int threads = context.engine.facts().threads;
  if (threads < 1)
    threads =
        static_cast<int>(std::max<std::int64_t>(1, process_cores() / context.communicator.local_size()));
  const bool automatic = selected("auto");
  const std::int64_t items = dataset.items();
  // Every rank holds all interactions, by users and by items.
  const double bytes =
      8.0 * static_cast<double>(dataset.entries("train")) * context.communicator.local_size();
  const bool fits = context.communicator.all_reduce(free_memory_bytes(), comm::Reduction::min) / 4.0 >= bytes;
  if (automatic && !fits)
    context.log.info(
        "validation.baselines: auto: no item_knn and ease, since the train users would take {:.1f} GiB",
        bytes / 1073741824.0);
  const bool knn = (automatic && fits) || selected("item_knn");
  const bool ease =
      selected("ease") || (automatic && fits && ease_is_cheap(items, context.communicator, threads));
  std::vector<Baseline> baselines;
  if (automatic || selected("popularity")) {
    const Popularity popularity(dataset, context);
    const CsrView seen = evaluator.held_out().fold_in.view();
    const CsrView targets = evaluator.held_out().targets.view();
    const EvaluationResult result = evaluator.evaluate(
        [&](std::int64_t row, std::span<std::int32_t> ranks) {
          popularity.rank(seen.row(row), targets.row(row), ranks);
        },
        [&](std::int64_t row, std::span<std::int32_t> list) { return popularity.top(seen.row(row), list); });
    baselines.push_back({"popularity", "popularity", result});
  }
  if (!knn && !ease) return baselines;
  const Interactions train = read_interactions(dataset, context);
  if (knn) {
    const ItemKnn model(train, options.model.item_knn, context, threads);
    baselines.push_back({"item_knn", "item-kNN", evaluate(evaluator, model, items, threads)});
  }
  if (!ease) return baselines;

  model::EaseOptions search = options.model.ease;
  const std::string& select = options.validation.select;
  const bool can_choose = dataset.rows("validation/fold_in") > 0 &&
                          dataset.entries("validation/held_out") > 0 && select != "last";
  if (!can_choose) {
    search.l2.resize(1);
    search.dropout.resize(1);
  } else if (search == model::EaseOptions{}) {
    search.l2 = {100.0, 200.0, 500.0, 1000.0};
  }
  const bool chooses = search.l2.size() * search.dropout.size() > 1;
  std::optional<std::pair<double, double>> best;
  std::unique_ptr<Ease> best_model;
  double best_value = 0.0;
  for (const double l2 : search.l2) {
    for (const double dropout : search.dropout) {
      auto model = std::make_unique<Ease>(train, l2, dropout, context, threads);
      double value = 0.0;
      if (chooses) {
        Evaluator validation(dataset, "validation", {select}, context);
        value = evaluate(validation, *model, items, threads).metrics.at(select).mean;
      }
      if (best && value <= best_value) continue;
      best = {l2, dropout};
      best_value = value;
      best_model = std::move(model);
    }
  }
  std::string title = format("EASE l2 {:g}", best->first);
  if (best->second > 0.0) title += format(" p {:g}", best->second);
  baselines.push_back({"ease", title, evaluate(evaluator, *best_model, items, threads)});
  return baselines;
}

}  // namespace vaecf::train
