#include "data/prepare/duplicates.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace vaecf::data {

DuplicateFilter::DuplicateFilter(std::int64_t items, const PrepareOptions& options)
    : rule_(options.duplicates),
      min_rating_(options.min_rating),
      last_(static_cast<std::size_t>(items), -1) {}

bool DuplicateFilter::any_repeated(std::span<const Event> events) {
  constexpr std::int64_t parts = 8;
  bool repeated = false;
  for (const Event& event : events) {
    const std::int64_t mark = event.user * parts + static_cast<std::int64_t>(event.part);
    repeated |= std::exchange(last_[static_cast<std::size_t>(event.item)], mark) == mark;
  }
  return repeated;
}

// Marks the event that counts among those of one pair, which are ordered by time.
void DuplicateFilter::choose(std::span<Event> events, std::span<const std::int32_t> of_pair) {
  const auto event = [&](std::size_t i) -> Event& { return events[static_cast<std::size_t>(of_pair[i])]; };
  std::size_t chosen = rule_ == DuplicateRule::last ? of_pair.size() - 1 : 0;
  if (rule_ == DuplicateRule::sum || rule_ == DuplicateRule::max) {
    double combined = event(0).rating;
    bool reached = combined >= min_rating_;
    for (std::size_t i = 1; i < of_pair.size(); ++i) {
      const double rating = event(i).rating;
      combined = rule_ == DuplicateRule::sum ? combined + rating : std::max(combined, rating);
      if (!reached && combined >= min_rating_) chosen = i;
      reached = reached || combined >= min_rating_;
    }
    event(chosen).positive = combined >= min_rating_;  // a negative rating may follow
  }
  counts_[static_cast<std::size_t>(of_pair[chosen])] = true;
}

std::span<Event> DuplicateFilter::reduce(std::span<Event> events) {
  if (!any_repeated(events)) return events;
  order_.resize(events.size());
  std::iota(order_.begin(), order_.end(), 0);
  const auto pair_of = [&](std::int32_t e) {
    const Event& event = events[static_cast<std::size_t>(e)];
    return std::pair(event.part, event.item);
  };
  std::sort(order_.begin(), order_.end(), [&](std::int32_t a, std::int32_t b) {
    const auto key = [&](std::int32_t e) {
      return std::tuple(pair_of(e), events[static_cast<std::size_t>(e)].time, e);
    };
    return key(a) < key(b);
  });
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

}  // namespace vaecf::data
