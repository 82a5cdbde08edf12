#include <vaecf/base/error.hpp>
#include <vaecf/base/parallel_for.hpp>
#include <vaecf/checkpoint/checkpoint_reader.hpp>
#include <vaecf/checkpoint/training_state.hpp>
#include <vaecf/models/kind.hpp>
#include <vaecf/run/recommender.hpp>

#include <pthread.h>

#include <limits>
#include <set>
#include <unordered_map>
#include <utility>

#include "run/reasons.hpp"
#include "run/similar.hpp"

namespace vaecf::run {
namespace {

/// The locks of all models of this process. A fork waits for them, so that a child finds no request half
/// done.
struct Locks {
  Locks() {
    ::pthread_atfork([] { all().lock(); }, [] { all().unlock(); }, [] { all().unlock(); });
  }
  static Locks& all() {
    static Locks locks;
    return locks;
  }
  void lock() {
    list.lock();
    for (std::mutex* each : of_models) each->lock();
  }
  void unlock() {
    for (std::mutex* each : of_models) each->unlock();
    list.unlock();
  }
  std::mutex list;  // of `of_models`
  std::set<std::mutex*> of_models;
};

void require_known(CsrView rows, std::int64_t columns, const char* what) {
  const bool known =
      std::ranges::all_of(rows.columns, [&](std::int32_t column) { return column >= 0 && column < columns; });
  if (!known) throw InputError(format("recommend: the users have {} outside the model's {}", what, columns));
}

/// Returns the popularity by the counts in the checkpoint. The number of users, which lists do not need, is
/// 0.
evaluate::Popularity most_popular_items(const io::CheckpointFile& checkpoint) {
  const std::vector<std::int32_t> users = checkpoint.dataset().item_users;
  return {{users.begin(), users.end()}, 0};
}

/// A list of a user from which items are left out: those excluded for the user, and those of a category that
/// has `choice.at_most` already.
class LimitedList {
 public:
  LimitedList(const RecommendOptions& choice, std::span<const std::int32_t> excluded,
              std::span<std::int32_t> items, std::span<float> scores)
      : choice_(choice), excluded_(excluded), items_(items), scores_(scores) {
    std::ranges::fill(items, -1);
    std::ranges::fill(scores, -std::numeric_limits<float>::infinity());
  }
  /// Adds the next item of the ranking, or leaves it out. Returns whether the list is not full.
  bool add(std::int32_t item, float score) {
    if (std::ranges::binary_search(excluded_, item)) return true;
    const CsrView categories = choice_.categories.view();
    const auto of_item = categories.rows() == 0 ? std::span<const std::int32_t>() : categories.row(item);
    const auto is_full = [&](std::int32_t category) { return taken_[category] >= choice_.at_most; };
    if (std::ranges::any_of(of_item, is_full)) return true;
    for (const std::int32_t category : of_item) ++taken_[category];
    items_[count_] = item;
    scores_[count_++] = score;
    return count_ < items_.size();
  }

 private:
  const RecommendOptions& choice_;
  std::span<const std::int32_t> excluded_;
  std::span<std::int32_t> items_;
  std::span<float> scores_;
  std::size_t count_ = 0;
  std::unordered_map<std::int32_t, int> taken_;
};

/// The features of the request's users; rows without features if it has none.
class FeatureRows {
 public:
  explicit FeatureRows(const RecommendRequest& request)
      : no_features_(static_cast<std::size_t>(request.seen.rows()) + 1, 0),
        rows_(request.features.rows() == 0 ? CsrView{no_features_, {}} : request.features) {}
  FeatureRows(const FeatureRows&) = delete;
  FeatureRows& operator=(const FeatureRows&) = delete;
  CsrView view() const { return rows_; }

 private:
  std::vector<std::int64_t> no_features_;  // offsets
  CsrView rows_;
};

/// Returns the number of items that may be recommended.
std::int64_t allowed_count(const RecommendOptions& choice, std::int64_t items) {
  return choice.allowed_items.empty() ? items : items - std::ranges::count(choice.allowed_items, 0);
}

bool is_allowed(const RecommendOptions& choice, std::int32_t item) {
  return choice.allowed_items.empty() || choice.allowed_items[item] != 0;
}

}  // namespace

std::vector<std::uint8_t> allowed_items(std::int64_t items, std::int64_t new_items, bool only_included,
                                        std::span<const std::int32_t> included,
                                        std::span<const std::int32_t> excluded) {
  if (!only_included && excluded.empty() && new_items == 0) return {};
  std::vector<std::uint8_t> allowed(static_cast<std::size_t>(items - new_items), only_included ? 0 : 1);
  allowed.resize(static_cast<std::size_t>(items), 0);
  for (const std::int32_t item : included) allowed[static_cast<std::size_t>(item)] = 1;
  for (const std::int32_t item : excluded) allowed[static_cast<std::size_t>(item)] = 0;
  return allowed;
}

/// The model for the time of one request: one that shares the weights, else the model itself, alone, whose
/// items are restricted until the end.
class Recommender::Session {
 public:
  explicit Session(const Recommender& recommender)
      : own_(recommender.model_->share()),
        alone_(recommender.one_at_a_time_, std::defer_lock),
        model_(own_ ? *own_ : *recommender.model_) {
    if (!own_) alone_.lock();
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    if (restricted_) model_.restrict_to({});
  }

  void restrict_to(std::span<const std::uint8_t> allowed_items) {
    if (allowed_items.empty()) return;
    restricted_ = true;
    model_.restrict_to(allowed_items);
  }
  models::Scorer& model() const { return model_; }

 private:
  std::unique_ptr<models::Scorer> own_;
  std::unique_lock<std::mutex> alone_;
  models::Scorer& model_;
  bool restricted_ = false;
};

struct Recommender::Inputs {
  const RecommendOptions& choice;
  CsrView seen;
  CsrView features;
  models::Scorer& model;
  models::LoadedUsers& users;
};

Recommender::Recommender(const config::TrainingConfig& options, const Context& context,
                         const io::CheckpointFile& checkpoint, bool explains)
    : self_(comm::make_self_communicator()),
      single_rank_{*self_, context.device, context.log, context.progress, nullptr, context.grid},
      popularity_(most_popular_items(checkpoint)) {
  checkpoint::CheckpointReader reader(checkpoint, single_rank_);
  const checkpoint::TrainingState& state = reader.state();
  if (state.features > 0 && options.model.features == models::FeaturesInput::off) {
    throw InputError(format(
        "{}: the checkpoint's model has {} user features, but model.user_features is false; set it to auto",
        checkpoint.path(), state.features));
  }
  items_ = state.items;
  const models::InputDims inputs{items_, state.features, single_rank_.model_parallel()};
  models::LoadedModel loaded = models::kind_of(options.model.type)
                                   .load(reader, options.model, inputs, single_rank_, batch_users, explains);
  model_ = std::move(loaded.scorer);
  reasons_ = std::move(loaded.reasons);
  const std::lock_guard lock(Locks::all().list);
  Locks::all().of_models.insert(&one_at_a_time_);
}

Recommender::~Recommender() {
  const std::lock_guard lock(Locks::all().list);
  Locks::all().of_models.erase(&one_at_a_time_);
}

std::int64_t Recommender::list_length(const RecommendOptions& choice) const {
  if (choice.k < 1)
    throw InputError(format("the number of recommendations must be 1 or more, got {}", choice.k));
  const std::int64_t allowed = allowed_count(choice, items_);
  if (allowed == 0) throw InputError("no item is left to recommend; include more or exclude fewer items");
  return std::min<std::int64_t>(choice.k, allowed);
}

void Recommender::complete_lists(std::int64_t users, std::int64_t width, std::span<std::int32_t> items,
                                 std::span<float> scores) const {
  if (!model_->divides_items()) return;
  // Every list is computed by one rank; the sum with zeros is exact.
  for (std::int64_t begin = 0; begin < users; begin += batch_users) {
    const std::int64_t count = std::min(batch_users, users - begin);
    const Range own = model_->own_users(count);
    const auto clear = [&](Range rows) {
      const auto first = static_cast<std::size_t>((begin + rows.begin) * width);
      const auto size = static_cast<std::size_t>(rows.size() * width);
      std::ranges::fill(items.subspan(first, size), 0);
      std::ranges::fill(scores.subspan(first, size), 0.0F);
    };
    clear({0, own.begin});
    clear({own.end, count});
  }
  comm::Communicator& ranks = single_rank_.grid->model_parallel_ranks();
  std::vector<std::int64_t> all(items.begin(), items.end());
  ranks.all_reduce(std::span<std::int64_t>(all));
  std::ranges::transform(all, items.begin(),
                         [](std::int64_t item) { return static_cast<std::int32_t>(item); });
  ranks.all_reduce(scores);
}

void Recommender::recommend(const RecommendRequest& request, std::span<std::int32_t> items,
                            std::span<float> scores) const {
  const auto& [choice, seen, given_features, last, excluded] = request;
  require_known(seen, items_, "items");
  require_known(given_features, this->features(), "features");
  require_known(excluded, items_, "excluded items");
  const std::int64_t width = list_length(choice);
  const FeatureRows feature_rows(request);
  const CsrView features = feature_rows.view();
  Session session(*this);
  session.restrict_to(choice.allowed_items);
  const auto users = session.model().load_users({seen, features, {}, 0});
  const Inputs inputs{choice, seen, features, session.model(), *users};
  if (choice.categories.rows() == 0 && excluded.rows() == 0)
    return rank(inputs, {0, seen.rows()}, width, items, scores);
  for (std::int64_t begin = 0; begin < seen.rows(); begin += batch_users) {
    const Range rows{begin, std::min(seen.rows(), begin + batch_users)};
    limit(inputs, excluded, rows, items.subspan(begin * width, rows.size() * width),
          scores.subspan(begin * width, rows.size() * width));
  }
}

void Recommender::limit(const Inputs& inputs, CsrView excluded, Range rows, std::span<std::int32_t> items,
                        std::span<float> scores) const {
  const std::int64_t width = std::ssize(items) / rows.size();
  std::int64_t most_excluded = 0;
  std::vector<LimitedList> lists;
  const auto start = [&] {
    lists.clear();
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const auto out = excluded.rows() == 0 ? std::span<const std::int32_t>() : excluded.row(row);
      most_excluded = std::max(most_excluded, std::ssize(out));
      const std::int64_t to = (row - rows.begin) * width;
      lists.emplace_back(inputs.choice, out, items.subspan(to, width), scores.subspan(to, width));
    }
  };
  start();
  std::int64_t length = most_excluded + (inputs.choice.categories.rows() == 0 ? width : 4 * width);
  const auto is_popular = [&](std::int64_t row) {
    return evaluate::is_served_by_popularity(inputs.seen, inputs.features, row);
  };
  const auto take = [&](std::int64_t row, std::int32_t item, float score) {
    return !is_popular(row) && lists[row - rows.begin].add(item, score);
  };
  if (inputs.model.for_each_ranked(inputs.users, rows, inputs.choice.keep_seen, length, take)) {
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      if (!is_popular(row)) continue;
      for (const std::int32_t item : popularity_.order())
        if (is_allowed(inputs.choice, item) &&
            !lists[row - rows.begin].add(item, std::numeric_limits<float>::quiet_NaN()))
          break;
    }
    return;
  }
  // Longer rankings until the lists of all users are full, or contain all that is left.
  const std::int64_t allowed = allowed_count(inputs.choice, items_);
  std::vector<std::int32_t> ranked;
  std::vector<float> ranked_scores;
  for (;; length *= 4, start()) {
    length = std::min(length, allowed);
    ranked.resize(rows.size() * length);
    ranked_scores.resize(ranked.size());
    rank(inputs, rows, length, ranked, ranked_scores);
    bool all_full = true;
    for (std::int64_t row = 0; row < rows.size(); ++row) {
      std::int64_t place = row * length;
      const std::int64_t end = place + length;
      while (place < end && ranked[place] >= 0 && lists[row].add(ranked[place], ranked_scores[place]))
        ++place;
      all_full &= place < end;
    }
    if (all_full || length == allowed) return;
  }
}

std::int64_t Recommender::vector_width() const {
  return model_->vector_width();
}

void Recommender::item_vectors(Range items, std::span<float> vectors) const {
  const Session session(*this);
  session.model().item_vectors(items, vectors);
}

void Recommender::user_vectors(const RecommendRequest& request, std::span<float> vectors) const {
  require_known(request.seen, items_, "items");
  require_known(request.features, features(), "features");
  const FeatureRows features(request);
  const Session session(*this);
  const auto users = session.model().load_users({request.seen, features.view(), {}, 0});
  const std::int64_t width = vector_width();
  for (std::int64_t begin = 0; begin < request.seen.rows(); begin += batch_users) {
    const Range rows{begin, std::min(request.seen.rows(), begin + batch_users)};
    session.model().user_vectors(*users, rows, vectors.subspan(begin * width, rows.size() * width));
  }
}

std::vector<SimilarItems> Recommender::similar(std::span<const std::int32_t> items, int k) const {
  const Session session(*this);
  return similar_items(session.model(), items, k);
}

void Recommender::rank(const Inputs& inputs, Range rows, std::int64_t width, std::span<std::int32_t> items,
                       std::span<float> scores) const {
  for (std::int64_t begin = rows.begin; begin < rows.end; begin += batch_users) {
    const Range batch{begin, std::min(rows.end, begin + batch_users)};
    const std::int64_t first = (begin - rows.begin) * width;
    inputs.model.top_k(inputs.users, batch, models::History::items, inputs.choice.keep_seen,
                       static_cast<int>(width), items.subspan(first, batch.size() * width),
                       scores.subspan(first, batch.size() * width));
  }
  complete_lists(rows.size(), width, items, scores);
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const std::int64_t first = (row - rows.begin) * width;
    const auto best = items.subspan(first, width);
    const auto best_scores = scores.subspan(first, width);
    if (evaluate::is_served_by_popularity(inputs.seen, inputs.features, row)) {
      auto next = best.begin();
      for (const std::int32_t item : popularity_.order())
        if (next != best.end() && is_allowed(inputs.choice, item)) *next++ = item;
      std::ranges::fill(best_scores, std::numeric_limits<float>::quiet_NaN());
      continue;
    }
    // Excluded items have score -inf, and follow all others.
    for (std::size_t position = best.size();
         position-- > 0 && (best[position] < 0 || !is_allowed(inputs.choice, best[position]));) {
      best[position] = -1;
      best_scores[position] = -std::numeric_limits<float>::infinity();
    }
  }
}

void Recommender::explain(const RecommendRequest& request, std::span<const std::int32_t> items,
                          std::span<const float> scores, std::span<std::int32_t> because,
                          std::span<float> contributions) const {
  const auto& [choice, seen, given_features, last, excluded] = request;
  const std::int64_t width = list_length(choice);
  const std::int64_t reasons = choice.reasons;
  std::ranges::fill(because, -1);
  std::ranges::fill(contributions, std::numeric_limits<float>::quiet_NaN());
  const FeatureRows feature_rows(request);
  const CsrView features = feature_rows.view();
  const Session session(*this);  // a network computes with the buffers of its model
  for (std::int64_t begin = 0; begin < seen.rows(); begin += batch_users) {
    const Range rows{begin, std::min(seen.rows(), begin + batch_users)};
    const CsrView histories = seen.subset(rows);
    const models::Contributions found =
        reasons_->contributions(histories, last.rows() == 0 ? last : last.subset(rows), features.subset(rows),
                                items.subspan(begin * width, rows.size() * width), width);
    parallel_for(models::item_model_threads(single_rank_), {0, rows.size()}, [&](std::int64_t row) {
      const auto history = histories.row(row);
      auto values = std::span(found.values).subspan(width * (histories.offsets[row] - histories.offsets[0]));
      for (std::int64_t place = (begin + row) * width; place < (begin + row + 1) * width; ++place) {
        const auto of_item = values.first(history.size());
        values = values.subspan(history.size());
        if (items[place] < 0 || history.empty()) continue;
        if (!found.scales.empty()) require_sum(of_item, items[place], scores[place], found.scales[row]);
        select_reasons(history, of_item, because.subspan(place * reasons, reasons),
                       contributions.subspan(place * reasons, reasons));
      }
    });
  }
}

}  // namespace vaecf::run
