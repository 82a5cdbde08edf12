#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/model/model.hpp>
#include <vaecf/train/recommender.hpp>

#include <algorithm>
#include <limits>
#include <optional>

#include "checkpoint_reading.hpp"
#include "features.hpp"
#include "popularity.hpp"

namespace vaecf::train {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

void require_known(CsrView rows, std::int64_t columns, const char* what) {
  const bool known =
      std::ranges::all_of(rows.columns, [&](std::int32_t column) { return column >= 0 && column < columns; });
  if (!known) throw InputError(format("the users hold {} beyond the model's {}", what, columns));
}

}  // namespace

struct Recommender::State {
  State(const SessionOptions& session, const Services& services, const std::string& checkpoint,
        const io::DatasetFile& data, RecommendOptions options)
      : dataset(data),
        choice(std::move(options)),
        self(comm::make_self_communicator()),
        alone{*self, services.engine, services.log, services.progress} {
    if (choice.k < 1) {
      throw InputError(format("{} recommendations cannot be made: ask for 1 or more", choice.k));
    }
    const LoadedCheckpoint state = read_checkpoint_state(checkpoint, alone);
    require_same_features(checkpoint, state, session, dataset);
    require_same_dataset(checkpoint, state.items, state.fingerprint, dataset);
    items = state.items;
    checksum = state.checksum;
    offered = choice.offers.empty() ? items : items - std::ranges::count(choice.offers, 0);
    if (offered == 0) throw InputError("no item is left to recommend: include more, or exclude fewer");
    model = alone.engine.make_model(session.model, model_inputs(session, dataset), users_at_a_time);
    load_weights(checkpoint, alone, *model);
    if (!choice.offers.empty()) model->exclude_items(choice.offers);
  }

  bool offers(std::int32_t item) const {
    return choice.offers.empty() || choice.offers[static_cast<std::size_t>(item)] != 0;
  }

  /// Read where the first user needs it: a pass over all of /train.
  const std::vector<std::int32_t>& popular_items() {
    if (!popularity) popularity.emplace(dataset, alone);
    return popularity->order();
  }

  void fill_popular(std::span<std::int32_t> best, std::span<float> scores) {
    std::size_t place = 0;
    for (const std::int32_t item : popular_items()) {
      if (place == best.size()) break;
      if (offers(item)) best[place++] = item;
    }
    std::ranges::fill(scores, std::numeric_limits<float>::quiet_NaN());
  }

  const io::DatasetFile& dataset;
  RecommendOptions choice;
  std::unique_ptr<comm::Communicator> self;
  Services alone;
  std::int64_t items = 0;
  std::uint64_t checksum = 0;
  std::int64_t offered = 0;
  std::unique_ptr<model::Model> model;
  std::optional<Popularity> popularity;
};

Recommender::Recommender(const SessionOptions& options, const Services& services,
                         const std::string& checkpoint, const io::DatasetFile& dataset,
                         RecommendOptions choice)
    : state_(std::make_unique<State>(options, services, checkpoint, dataset, std::move(choice))) {}
Recommender::~Recommender() = default;

std::int64_t Recommender::width() const {
  return std::min<std::int64_t>(state_->choice.k, state_->offered);
}

std::uint64_t Recommender::checkpoint() const {
  return state_->checksum;
}

std::int64_t Recommender::features() const {
  return state_->model->features();
}

void Recommender::recommend(CsrView seen, CsrView features, std::span<std::int32_t> items,
                            std::span<float> scores) {
  State& s = *state_;
  require_known(seen, s.items, "items");
  require_known(features, this->features(), "features");
  const auto width = static_cast<std::size_t>(this->width());
  const std::vector<std::int64_t> no_features(static_cast<std::size_t>(seen.rows()) + 1, 0);
  if (features.rows() == 0) features = {no_features, {}};
  const auto users = s.model->hold({seen, features, {}, 0});
  for (std::int64_t begin = 0; begin < seen.rows(); begin += users_at_a_time) {
    const Range rows{begin, std::min(seen.rows(), begin + users_at_a_time)};
    const std::size_t first = static_cast<std::size_t>(begin) * width;
    const std::size_t size = static_cast<std::size_t>(rows.size()) * width;
    s.model->top_k(*users, rows, model::History::items, s.choice.keep_seen, static_cast<int>(width),
                   items.subspan(first, size), scores.subspan(first, size));
  }
  for (std::int64_t row = 0; row < seen.rows(); ++row) {
    const std::size_t first = static_cast<std::size_t>(row) * width;
    const auto best = items.subspan(first, width);
    const auto its_scores = scores.subspan(first, width);
    if (seen.row_size(row) == 0 && features.row_size(row) == 0) {
      s.fill_popular(best, its_scores);
      continue;
    }
    // Behind all that may be recommended, with minus infinity, stand those that may not.
    for (std::size_t place = width; place-- > 0 && (best[place] < 0 || !s.offers(best[place]));) {
      best[place] = -1;
      its_scores[place] = -infinity;
    }
  }
}

}  // namespace vaecf::train
