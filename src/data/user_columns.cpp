#include "data/user_columns.hpp"

#include <array>
#include <numeric>
#include <span>
#include <utility>

namespace vaecf::data {
namespace {

constexpr double missing_share = 0.05;
constexpr double other_share = 0.15;

// Streams of the columns count down from here; user numbers stay below.
constexpr std::uint32_t first_stream = 0xFFFFFFFDu;

std::pair<std::string, std::int32_t> kind_of(std::size_t column) {
  constexpr std::array<std::pair<const char*, std::int32_t>, 4> known{
      {{"country", 24}, {"age", 7}, {"occupation", 21}, {"gender", 2}}};
  constexpr std::array<std::int32_t, 4> others{12, 60, 5, 30};
  if (column < known.size()) return {known[column].first, known[column].second};
  return {"column_" + std::to_string(column + 1), others[column % others.size()]};
}

}  // namespace

UserColumns::UserColumns(int columns, int tastes, std::uint64_t seed)
    : drawn_(static_cast<std::size_t>(columns)) {
  std::vector<FeatureColumn> layout;
  std::vector<std::int32_t> order(static_cast<std::size_t>(tastes));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t c = 0; c < drawn_.size(); ++c) {
    const auto [name, values] = kind_of(c);
    const auto stream = first_stream - static_cast<std::uint32_t>(c);
    PhiloxStream(seed, stream, PhiloxStream::synthesis_step).shuffle(std::span(order));
    Column column{values, std::vector<std::int32_t>(order.size())};
    for (std::size_t place = 0; place < order.size(); ++place) {
      column.of_taste[static_cast<std::size_t>(order[place])] = static_cast<std::int32_t>(place) % values;
    }
    columns_.push_back(std::move(column));
    layout.push_back({name, FeatureColumn().hashes, FeatureHashing::default_buckets(values)});
  }
  hashing_ = FeatureHashing(std::move(layout));
}

const std::vector<std::string>& UserColumns::draw_user(PhiloxStream& random,
                                                       const TasteModel::Mixture& tastes) {
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const double chance = random.uniform();
    if (chance < missing_share) {
      drawn_[c].clear();
      continue;
    }
    const auto any = static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(columns_[c].values)));
    const std::int32_t own = columns_[c].of_taste[static_cast<std::size_t>(tastes.draw(random))];
    drawn_[c] = std::to_string(1 + (chance < missing_share + other_share ? any : own));
  }
  return drawn_;
}

}  // namespace vaecf::data
