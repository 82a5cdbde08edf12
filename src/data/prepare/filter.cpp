#include "data/prepare/filter.hpp"

#include <vaecf/base/error.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "data/prepare/split_counter.hpp"
#include "data/source/ratings_builder.hpp"

namespace vaecf::data {
namespace {

// Returns the position of each id in sorted order.
std::vector<std::int32_t> ranks(const std::vector<std::int64_t>& ids) {
  std::vector<std::int32_t> sorted(ids.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::ranges::sort(sorted, {}, [&](std::int32_t i) { return ids[i]; });
  std::vector<std::int32_t> rank(ids.size());
  for (std::size_t r = 0; r < sorted.size(); ++r) rank[sorted[r]] = static_cast<std::int32_t>(r);
  return rank;
}

/// The first events of a kind in the defined order, as examples for the report, and their number.
class Examples {
 public:
  explicit Examples(const std::vector<std::int32_t>& item_order) : item_order_(&item_order) {}

  void add(const Event& event) {
    ++count_;
    const auto before = [&](const Event& a, const Event& b) { return position(a) < position(b); };
    first_.insert(std::upper_bound(first_.begin(), first_.end(), event, before), event);
    if (first_.size() > DataIssues::shown) first_.pop_back();
  }
  std::int64_t count() const { return count_; }
  /// Reports all of them as dropped because of `what`.
  void report(std::string_view what, RawRatings& ratings) const {
    for (const Event& event : first_) {
      ratings.issues.dropped(what, [&] {
        return format("{}: user {}, item {}", ratings.locations.location_of(event.index),
                      excerpt(ratings.user_ids.text(event.user)), excerpt(ratings.item_ids.text(event.item)));
      });
    }
    const std::int64_t others = count_ - static_cast<std::int64_t>(first_.size());
    if (others > 0) ratings.issues.add_count(what, others);
  }

 private:
  std::pair<std::int32_t, std::int64_t> position(const Event& event) const {
    return {item_order_->empty() ? 0 : (*item_order_)[event.item], event.index};
  }

  const std::vector<std::int32_t>* item_order_;
  std::int64_t count_ = 0;
  std::vector<Event> first_;
};

template <class Drop>
std::span<Event> without(std::span<Event> events, Drop drop) {
  const auto end =
      std::remove_if(events.begin(), events.end(), [&](const Event& event) { return drop(event); });
  return events.first(end - events.begin());
}

}  // namespace

/// Reduces the events of each (user, item) pair to one, by the rule `data.prepare.duplicates`. In an already
/// split source each part is reduced by itself.
///
/// Events of a pair are ordered by time and, where times are equal or are not read, by their position in the
/// source. `first` and `last` keep the first and the last of them. `sum` and `max` combine their ratings; if
/// the combined rating is at least `min_rating`, the event is kept with which it first reaches that value and
/// gives a weight. The ratings of this event are those combined before the two `cuts` in time, so that later
/// events do not change a weight: Event::train_rating before the first, Event::rating before the second.
class DuplicateFilter {
 public:
  DuplicateFilter(std::int64_t items, const PrepareOptions& options, const std::array<double, 2>& cuts)
      : rule_(options.duplicates),
        min_rating_(options.min_rating),
        weights_(options.weights),
        cuts_(cuts),
        last_(items, -1) {}

  /// Moves the event that counts of each pair to the front and returns these events; the others follow. Both
  /// sets keep the order of their positions. Sets Event::positive by the combined rating for `sum` and
  /// `max`; with weights it is also false if there is none for the rating. `events`: all events of one user,
  /// in the order of their positions; each user once per filter.
  std::span<Event> reduce(std::span<Event> events) {
    if (weights_ != WeightRule::none) {
      for (Event& event : events) {
        event.positive = passes(event.rating);
        event.train_rating = event.rating;
      }
    }
    if (!any_repeated(events)) return events;
    order_.resize(events.size());
    std::iota(order_.begin(), order_.end(), 0);
    const auto pair_of = [&](std::int32_t e) { return std::pair(events[e].part, events[e].item); };
    std::ranges::sort(order_, {}, [&](std::int32_t e) { return std::tuple(pair_of(e), events[e].time, e); });
    counts_.assign(events.size(), false);
    for (std::size_t begin = 0; begin < order_.size();) {
      std::size_t end = begin + 1;
      while (end < order_.size() && pair_of(order_[end]) == pair_of(order_[begin])) ++end;
      choose(events, std::span(order_).subspan(begin, end - begin));
      begin = end;
    }
    others_.clear();
    std::size_t kept = 0;
    for (std::size_t e = 0; e < events.size(); ++e) {
      if (counts_[e]) {
        events[kept++] = events[e];
      } else {
        others_.push_back(events[e]);
      }
    }
    std::ranges::copy(others_, events.begin() + static_cast<std::ptrdiff_t>(kept));
    return events.first(kept);
  }

 private:
  bool any_repeated(std::span<const Event> events) {
    constexpr std::int64_t parts = 8;
    bool repeated = false;
    for (const Event& event : events) {
      const std::int64_t mark = event.user * parts + static_cast<std::int64_t>(event.part);
      repeated |= std::exchange(last_[event.item], mark) == mark;
    }
    return repeated;
  }

  /// Marks the event that counts among those of one pair, which are ordered by time.
  void choose(std::span<Event> events, std::span<const std::int32_t> of_pair) {
    std::size_t chosen = rule_ == DuplicateRule::last ? of_pair.size() - 1 : 0;
    if (combines_ratings(rule_)) {
      double combined = events[of_pair[0]].rating;
      std::array<double, 2> before_cuts{combined, combined};
      bool reached = passes(combined);
      for (std::size_t i = 1; i < of_pair.size(); ++i) {
        const auto& [rating, time] = std::pair(events[of_pair[i]].rating, events[of_pair[i]].time);
        combined = rule_ == DuplicateRule::sum ? combined + rating : std::max(combined, rating);
        if (!reached && passes(combined)) chosen = i;
        reached = reached || passes(combined);
        for (std::size_t c = 0; c < cuts_.size(); ++c)
          if (time < cuts_[c]) before_cuts[c] = combined;
      }
      Event& event = events[of_pair[chosen]];
      event.positive = passes(combined);  // a negative rating may follow
      event.train_rating = before_cuts[0];
      event.rating = before_cuts[1];
    }
    counts_[of_pair[chosen]] = true;
  }
  bool passes(double rating) const { return rating >= min_rating_ && is_weight(weight_of(weights_, rating)); }

  DuplicateRule rule_;
  double min_rating_;
  WeightRule weights_;
  std::array<double, 2> cuts_;
  std::vector<std::int64_t> last_;   // user and part of the last event of each item
  std::vector<std::int32_t> order_;  // events by part, item, time and position
  std::vector<bool> counts_;         // of each event
  std::vector<Event> others_;
};

Filter::Filter(RawRatings& ratings, const PrepareOptions& options, PrepareReport& report, Progress& progress)
    : ratings_(&ratings),
      progress_(&progress),
      options_(&options),
      // A given split was made from filtered events.
      min_user_items_(options.split == SplitMethod::given ? 0 : options.min_user_items),
      min_item_users_(options.split == SplitMethod::given ? 0 : options.min_item_users),
      items_(ratings.item_ids.size()),
      events_of_(ratings.user_ids.size()),
      users_of_(items_),
      kept_(items_) {
  cuts_.fill(std::numeric_limits<double>::infinity());
  if (ratings.ordered_by_item) item_order_ = ranks(ratings.item_ids.numbers);
  count_positive(report);
  if (min_item_users_ > 0) count_on_kept_items(report);
  if (options.split == SplitMethod::given) return;
  add_stage(kept_, format("users with >= {} items", min_user_items_), "lower data.prepare.min_user_items",
            report);
  if (options.repeat_filters && min_item_users_ > 0) repeat_counts(report);
}

void Filter::add_stage(const SplitCounter& tally, const std::string& stage, std::string_view advice,
                       PrepareReport& report) const {
  if (tally.events() == 0)
    throw InputError(format("no event is left after the stage '{}'; {}", stage, advice));
  report.stages.push_back(tally.stage(stage));
}

void Filter::count_positive(PrepareReport& report) {
  DuplicateFilter duplicates(items_, *options_, cuts_);
  const bool weighted = options_->weights != WeightRule::none;
  SplitCounter raw(items_);
  SplitCounter reduced(items_);
  SplitCounter rated(items_);
  SplitCounter positive(items_);
  Examples repeated(item_order_);
  Examples unweighted(item_order_);
  std::int64_t would_pass = 0;
  ratings_->events.each_user({"finding repeated events"}, *progress_, [&](std::span<Event> events) {
    raw.add_row(events);
    const std::span<Event> all = events;
    events = duplicates.reduce(events);
    for (const Event& event : all.subspan(events.size())) {
      repeated.add(event);
      would_pass += event.positive ? 1 : 0;
    }
    reduced.add_row(events);
    if (weighted) {
      events = without(events, [&](const Event& event) { return event.rating < options_->min_rating; });
      rated.add_row(events);
      for (const Event& event : events)
        if (!event.positive) unweighted.add(event);
    }
    events = without(events, [](const Event& event) { return !event.positive; });
    positive.add_row(events);
    for (const Event& event : events) {
      ++users_of_[event.item];
      Range& users = users_of_part_[static_cast<std::size_t>(event.part)];
      if (users.size() == 0) users = {event.user, event.user + 1};
      users = {std::min<std::int64_t>(users.begin, event.user),
               std::max<std::int64_t>(users.end, event.user + 1)};
    }
    if (min_item_users_ == 0) count_user(events);
  });

  report.lines_read = ratings_->lines;
  report.events_read = ratings_->events.size();
  report.duplicates_dropped = repeated.count();
  // With `sum` and `max` every event counts, so repeats are no issue.
  if (!combines_ratings(options_->duplicates)) {
    repeated.report(options_->duplicates == DuplicateRule::first
                        ? "the user and item also occur in an earlier event, which counts"
                        : "the user and item also occur in a later event, which counts",
                    *ratings_);
  }
  unweighted.report(format("the rating gives no positive weight (data.prepare.interaction_weights: {})",
                           to_string(options_->weights)),
                    *ratings_);
  ratings_->locations = {};
  report.stages.push_back(raw.stage("raw"));
  report.stages.push_back(reduced.stage(to_string(options_->duplicates) + " of each (user, item)"));
  if (ratings_->unrated) return;
  if (options_->min_rating == PrepareOptions::no_minimum && !weighted) return;
  if (options_->min_rating != PrepareOptions::no_minimum)
    add_stage(
        weighted ? rated : positive, format("rating >= {}", options_->min_rating),
        would_pass == 0
            ? "lower data.prepare.min_rating"
            : format(
                  "lower data.prepare.min_rating, or set data.prepare.duplicates to another rule, since {} repeated events with such a rating do not count",
                  would_pass),
        report);
  if (weighted) add_stage(positive, "weight > 0", "set data.prepare.interaction_weights: null", report);
}

void Filter::count_on_kept_items(PrepareReport& report) {
  DuplicateFilter duplicates(items_, *options_, cuts_);
  SplitCounter on_kept_items(items_);
  ratings_->events.each_user({"counting users of items"}, *progress_, [&](std::span<Event> events) {
    events = keep(events, duplicates);
    on_kept_items.add_row(events);
    count_user(events);
  });
  add_stage(on_kept_items, format("items with >= {} users", min_item_users_),
            "lower data.prepare.min_item_users", report);
}

// Repeats the filters of items and users until nothing changes. The result is the largest set of users and
// items that satisfies both limits (the k-core), whatever the order of the filters.
void Filter::repeat_counts(PrepareReport& report) {
  std::int64_t rounds = 0;
  for (bool changed = true; changed; rounds += changed ? 1 : 0) {
    changed = false;
    DuplicateFilter duplicates(items_, *options_, cuts_);
    std::vector<std::int32_t> users_left(users_of_.size(), 0);
    kept_ = SplitCounter(items_);
    ratings_->events.each_user({"repeating the filters"}, *progress_, [&](std::span<Event> events) {
      std::int32_t& count = events_of_[events.front().user];
      if (count == 0) return;
      events = keep(events, duplicates);
      const bool enough = !events.empty() && static_cast<std::int64_t>(events.size()) >= min_user_items_;
      changed |= !enough;
      count = enough ? static_cast<std::int32_t>(events.size()) : 0;
      if (!enough) return;
      kept_.add_row(events);
      for (const Event& event : events) ++users_left[event.item];
    });
    for (std::size_t i = 0; i < users_of_.size(); ++i) {
      if (users_of_[i] < min_item_users_ || users_left[i] >= min_item_users_) continue;
      changed |= users_left[i] > 0;
      users_of_[i] = 0;
    }
  }
  if (rounds == 0) return;
  add_stage(kept_, format("both again until nothing changes ({} {})", rounds, rounds == 1 ? "time" : "times"),
            "lower data.prepare.min_item_users or min_user_items, or set data.prepare.repeat_filters: false",
            report);
}

// Counts the events of one user that all previous stages kept.
void Filter::count_user(std::span<const Event> events) {
  if (events.empty() || static_cast<std::int64_t>(events.size()) < min_user_items_) return;
  events_of_[events.front().user] = static_cast<std::int32_t>(events.size());
  kept_.add_row(events);
}

std::span<Event> Filter::keep(std::span<Event> events, DuplicateFilter& duplicates) const {
  return without(duplicates.reduce(events), [&](const Event& event) {
    return !event.positive || users_of_[event.item] < min_item_users_;
  });
}

void Filter::each_user(const EventStore::Pass& pass, const EventStore::Use& use) {
  DuplicateFilter duplicates(items_, *options_, cuts_);
  ratings_->events.each_user(pass, *progress_, [&](std::span<Event> events) {
    if (events_of_[events.front().user] == 0) return;
    events = keep(events, duplicates);
    if (!item_order_.empty()) {
      for (Event& event : events) event.index = item_order_[event.item];
      std::ranges::sort(events, {}, [](const Event& event) { return std::int64_t{event.index}; });
    }
    use(events);
  });
}

}  // namespace vaecf::data
