#include <algorithm>
#include <numeric>

#include "data/philox_stream.hpp"
#include "data/split.hpp"

namespace vaecf::data {
namespace {

constexpr std::int32_t no_place = -1;

// Events of all users by position: those of position p lie at offsets[p] to offsets[p + 1], in file order.
class EventPlaces {
 public:
  EventPlaces(const Events& events, const std::vector<std::int32_t>& users)
      : offsets_(users.size() + 1, 0), events_(&events) {
    for (std::size_t p = 0; p < users.size(); ++p) {
      const auto user = static_cast<std::size_t>(users[p]);
      if (user >= position_.size()) position_.resize(user + 1, no_place);
      position_[user] = static_cast<std::int32_t>(p);
    }
    for (const std::int32_t user : events.user) ++offsets_[position(user) + 1];
    for (std::size_t p = 1; p < offsets_.size(); ++p) offsets_[p] += offsets_[p - 1];
  }

  const std::vector<std::int64_t>& offsets() const { return offsets_; }

  /// use(event, place) in file order.
  template <class Use>
  void for_each(Use use) const {
    std::vector<std::int64_t> next(offsets_.begin(), offsets_.end() - 1);
    for (std::size_t e = 0; e < events_->user.size(); ++e) {
      use(e, static_cast<std::size_t>(next[position(events_->user[e])]++));
    }
  }

 private:
  std::size_t position(std::int32_t user) const {
    return static_cast<std::size_t>(position_[static_cast<std::size_t>(user)]);
  }
  std::vector<std::int32_t> position_;
  std::vector<std::int64_t> offsets_;
  const Events* events_;
};

// How many of n events are held out for a part.
std::int64_t held_out_count(const PrepareOptions& options, std::int64_t n) {
  if (options.split == "leave_one_out") return 1;
  return std::max<std::int64_t>(
      1, static_cast<std::int64_t>(options.held_out_fraction * static_cast<double>(n)));
}

}  // namespace

void WeakDraw::draw(std::int64_t position, std::span<const double> times, std::span<Part> parts) {
  const auto n = static_cast<std::int64_t>(parts.size());
  order_.resize(parts.size());  // those to be held out first
  std::iota(order_.begin(), order_.end(), 0);
  if (options_->pick == "random") {
    PhiloxStream(options_->seed, static_cast<std::uint32_t>(position), PhiloxStream::split_step)
        .shuffle(std::span(order_));
  } else {
    std::reverse(order_.begin(), order_.end());
    if (!times.empty()) {
      std::stable_sort(order_.begin(), order_.end(), [&](std::int32_t a, std::int32_t b) {
        return times[static_cast<std::size_t>(a)] > times[static_cast<std::size_t>(b)];
      });
    }
  }
  std::fill(parts.begin(), parts.end(), Part::train);
  std::int64_t left = n;
  auto next = order_.begin();
  const auto hold_out = [&](Part part, std::int64_t fewest_events) {
    if (n < fewest_events) return;
    for (std::int64_t k = std::min(held_out_count(*options_, n), left - 1); k > 0; --k, --left) {
      parts[static_cast<std::size_t>(*next++)] = part;
    }
  };
  if (options_->test_users > 0) hold_out(Part::test, 2);
  if (options_->validation_users > 0) hold_out(Part::validation, options_->test_users > 0 ? 3 : 2);
}

std::vector<Part> weak_parts(const Events& events, const std::vector<std::int32_t>& users,
                             const PrepareOptions& options) {
  const EventPlaces places(events, users);
  std::vector<double> times(events.time.size());
  if (!times.empty())
    places.for_each([&](std::size_t e, std::size_t place) { times[place] = events.time[e]; });

  std::vector<Part> part_at(static_cast<std::size_t>(events.size()), Part::train);
  WeakDraw draw(options);
  for (std::size_t p = 0; p < users.size(); ++p) {
    const auto begin = static_cast<std::size_t>(places.offsets()[p]);
    const auto n = static_cast<std::size_t>(places.offsets()[p + 1]) - begin;
    const std::span<const double> of_user =
        times.empty() ? std::span<const double>() : std::span<const double>(times).subspan(begin, n);
    draw.draw(static_cast<std::int64_t>(p), of_user, std::span(part_at).subspan(begin, n));
  }
  std::vector<Part> parts(part_at.size());
  places.for_each([&](std::size_t e, std::size_t place) { parts[e] = part_at[place]; });
  return parts;
}

Split weak_split(const Events& events, const std::vector<std::int32_t>& users, const std::vector<Part>& parts,
                 bool whole_catalogue) {
  Split split;
  split.weak = true;
  split.users = users;
  const auto count = static_cast<std::size_t>(events.size());
  std::vector<std::int32_t> column_of;
  const auto number_items = [&](auto counts) {
    for (std::size_t e = 0; e < count; ++e) {
      const auto item = static_cast<std::size_t>(events.item[e]);
      if (item >= column_of.size()) column_of.resize(item + 1, no_place);
      if (!counts(parts[e]) || column_of[item] != no_place) continue;
      column_of[item] = static_cast<std::int32_t>(split.items.size());
      split.items.push_back(events.item[e]);
    }
  };
  number_items([](Part part) { return part == Part::train; });
  if (whole_catalogue) number_items([](Part) { return true; });

  const EventPlaces places(events, users);
  std::vector<std::int32_t> columns(count);
  std::vector<Part> part_at(count);
  places.for_each([&](std::size_t e, std::size_t place) {
    columns[place] = column_of[static_cast<std::size_t>(events.item[e])];
    part_at[place] = parts[e];
    if (columns[place] != no_place) return;
    Events& unknown = parts[e] == Part::validation ? split.validation.unknown : split.test.unknown;
    unknown.user.push_back(events.user[e]);
    unknown.item.push_back(events.item[e]);
  });
  const auto rows_of = [&](Part part) {
    Csr rows;
    for (std::size_t p = 0; p < users.size(); ++p) {
      for (auto place = static_cast<std::size_t>(places.offsets()[p]);
           place < static_cast<std::size_t>(places.offsets()[p + 1]); ++place) {
        if (part_at[place] == part && columns[place] != no_place) rows.columns.push_back(columns[place]);
      }
      rows.offsets.push_back(static_cast<std::int64_t>(rows.columns.size()));
    }
    return rows;
  };
  split.train = rows_of(Part::train);
  const auto fill = [&](HeldOutPart& part, Part which) {
    if (std::find(parts.begin(), parts.end(), which) == parts.end()) return;
    part.targets = rows_of(which);
    for (std::int64_t row = 0; row < part.targets.rows(); ++row) {
      part.without_target += part.targets.view().row_size(row) == 0 ? 1 : 0;
    }
  };
  fill(split.validation, Part::validation);
  fill(split.test, Part::test);
  return split;
}

}  // namespace vaecf::data
