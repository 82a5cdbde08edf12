#include <vaecf/base/error.hpp>
#include <vaecf/base/parallel_for.hpp>
#include <vaecf/checkpoint/checkpoint_reader.hpp>
#include <vaecf/checkpoint/training_state.hpp>
#include <vaecf/models/item_model.hpp>
#include <vaecf/models/kind.hpp>
#include <vaecf/run/recommender.hpp>

#include <atomic>
#include <limits>
#include <unordered_map>
#include <utility>

#include "run/reasons.hpp"

namespace vaecf::run {
namespace {

void require_known(CsrView rows, std::int64_t columns, const char* what) {
  const bool known =
      std::ranges::all_of(rows.columns, [&](std::int32_t column) { return column >= 0 && column < columns; });
  if (!known) throw InputError(format("recommend: the users have {} outside the model's {}", what, columns));
}

/// Returns the popularity by the counts in the checkpoint. The number of users, which lists do not need, is
/// 0.
models::Popularity most_popular_items(const io::CheckpointFile& checkpoint) {
  const std::vector<std::int32_t> users = checkpoint.dataset().item_users;
  return {{users.begin(), users.end()}, 0};
}

/// Copies the first items of a ranked list, and their scores, that are not in `excluded` and of which no
/// category has more than `choice.at_most`. Returns whether they fill the list, or are all items that the
/// user may get.
bool limit_list(const RecommendOptions& choice, std::span<const std::int32_t> excluded,
                std::span<const std::int32_t> ranked, std::span<const float> ranked_scores,
                std::span<std::int32_t> items, std::span<float> scores) {
  const CsrView categories = choice.categories.view();
  std::unordered_map<std::int32_t, int> taken;
  std::size_t count = 0;
  for (std::size_t place = 0; place < ranked.size() && ranked[place] >= 0 && count < items.size(); ++place) {
    if (std::ranges::binary_search(excluded, ranked[place])) continue;
    const auto of_item =
        categories.rows() == 0 ? std::span<const std::int32_t>() : categories.row(ranked[place]);
    const auto is_full = [&](std::int32_t category) { return taken[category] >= choice.at_most; };
    if (std::ranges::any_of(of_item, is_full)) continue;
    for (const std::int32_t category : of_item) ++taken[category];
    items[count] = ranked[place];
    scores[count++] = ranked_scores[place];
  }
  std::ranges::fill(items.subspan(count), -1);
  std::ranges::fill(scores.subspan(count), -std::numeric_limits<float>::infinity());
  return count == items.size() || ranked.back() < 0;
}

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
    throw InputError(
        format("{}: the checkpoint's model has {} user features, but model.features is off; set it to auto",
               checkpoint.path(), state.features));
  }
  items_ = state.items;
  const models::InputDims inputs{items_, state.features, single_rank_.model_parallel()};
  models::LoadedModel loaded = models::kind_of(options.model.type)
                                   .load(reader, options.model, inputs, single_rank_, batch_users, explains);
  model_ = std::move(loaded.scorer);
  reasons_ = std::move(loaded.reasons);
}

Recommender::~Recommender() = default;

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
  CsrView features = given_features;
  require_known(seen, items_, "items");
  require_known(features, this->features(), "features");
  require_known(excluded, items_, "excluded items");
  const std::int64_t width = list_length(choice);
  const std::vector<std::int64_t> no_features(static_cast<std::size_t>(seen.rows()) + 1, 0);
  if (features.rows() == 0) features = {no_features, {}};
  Session session(*this);
  session.restrict_to(choice.allowed_items);
  const auto users = session.model().load_users({seen, features, {}, 0});
  const Inputs inputs{choice, seen, features, session.model(), *users};
  if (choice.categories.rows() == 0 && excluded.rows() == 0)
    return rank(inputs, {0, seen.rows()}, width, items, scores);
  const std::int64_t allowed = allowed_count(choice, items_);
  std::vector<std::int32_t> ranked;
  std::vector<float> ranked_scores;
  for (std::int64_t begin = 0; begin < seen.rows(); begin += batch_users) {
    const Range rows{begin, std::min(seen.rows(), begin + batch_users)};
    std::int64_t most_excluded = 0;
    for (std::int64_t row = 0; row < std::min(excluded.rows(), rows.size()); ++row)
      most_excluded = std::max(most_excluded, excluded.row_size(begin + row));
    // Longer lists until the lists of all users of the batch are full.
    std::atomic<bool> full = false;
    std::int64_t length = choice.categories.rows() == 0 ? width : 4 * width;
    do {
      length = std::min(length + most_excluded, allowed);
      ranked.resize(rows.size() * length);
      ranked_scores.resize(ranked.size());
      rank(inputs, rows, length, ranked, ranked_scores);
      full = true;
      parallel_for(models::item_model_threads(single_rank_), {0, rows.size()}, [&](std::int64_t row) {
        const std::int64_t to = (begin + row) * width;
        const Range from{row * length, (row + 1) * length};
        const auto out = excluded.rows() == 0 ? std::span<const std::int32_t>() : excluded.row(begin + row);
        if (!limit_list(choice, out, view(ranked, from), view(ranked_scores, from), items.subspan(to, width),
                        scores.subspan(to, width)))
          full = false;
      });
      if (full || length == allowed) break;
      length *= 4;
    } while (true);
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
  const std::vector<std::int64_t> none(static_cast<std::size_t>(request.seen.rows()) + 1, 0);
  const CsrView features = request.features.rows() == 0 ? CsrView{none, {}} : request.features;
  const Session session(*this);
  const auto users = session.model().load_users({request.seen, features, {}, 0});
  const std::int64_t width = vector_width();
  for (std::int64_t begin = 0; begin < request.seen.rows(); begin += batch_users) {
    const Range rows{begin, std::min(request.seen.rows(), begin + batch_users)};
    session.model().user_vectors(*users, rows, vectors.subspan(begin * width, rows.size() * width));
  }
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
    if (models::is_served_by_popularity(inputs.seen, inputs.features, row)) {
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
  CsrView features = given_features;
  const std::int64_t width = list_length(choice);
  const std::int64_t reasons = choice.reasons;
  std::ranges::fill(because, -1);
  std::ranges::fill(contributions, std::numeric_limits<float>::quiet_NaN());
  const std::vector<std::int64_t> no_features(static_cast<std::size_t>(seen.rows()) + 1, 0);
  if (features.rows() == 0) features = {no_features, {}};
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
