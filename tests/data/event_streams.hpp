#pragma once

#include <vaecf/data/prepare.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "data/support.hpp"

/// Random streams of events, and plain implementations of the filters that prepare applies to them.
namespace vaecf::data::test {

struct StreamEvent {
  int user = 0;
  int item = 0;
  int rating = 0;
  int time = 0;
  auto operator<=>(const StreamEvent&) const = default;
};
using Stream = std::vector<StreamEvent>;  ///< in the order of the source

/// Draws 1 to 150 events with repeated pairs, few popular items, equal times and ratings from -1 to 5.
inline Stream draw_stream(std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const int users = 1 + below(12), items = 1 + below(15), times = 1 + below(60);
  Stream stream(static_cast<std::size_t>(1 + below(150)));
  for (StreamEvent& event : stream)
    event = {below(users), below(1 + below(items)), below(7) - 1, below(times)};
  return stream;
}

/// Draws values of the options that filter events.
inline void draw_filters(std::mt19937& random, PrepareOptions& options) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  options.duplicates = static_cast<DuplicateRule>(below(4));
  options.min_rating = below(5) - 1;
  options.weights = static_cast<WeightRule>(below(3));
  options.min_user_items = 1 + below(4);
  options.min_item_users = below(4);
  options.repeat_filters = below(4) > 0;
}

/// The pair of a user and an item as one event.
struct Kept {
  int time = 0;
  std::size_t place = 0;  ///< of the event that counts in the source
  double rating = 0.0;    ///< by the rule of duplicates, of all events of the pair
  StreamEvent event{};
};
using KeptOf = std::map<int, std::map<int, Kept>>;  ///< user, item

inline bool passes(double rating, const PrepareOptions& options) {
  return rating >= options.min_rating && (options.weights == WeightRule::none || rating > 0.0);
}

/// Returns the rating of a pair by the events before `end`, in the order of their times.
inline double rating_before(const Stream& of_pair, const PrepareOptions& options, double end) {
  double all = of_pair.front().rating;
  for (std::size_t i = 1; i < of_pair.size() && of_pair[i].time < end; ++i)
    all = options.duplicates == DuplicateRule::sum ? all + of_pair[i].rating
                                                   : std::max(all, double(of_pair[i].rating));
  return all;
}

/// Returns the events of each pair by time, and by their order in the source where times are equal.
inline std::map<std::pair<int, int>, Stream> pairs_of(const Stream& stream) {
  std::map<std::pair<int, int>, Stream> pairs;
  for (const StreamEvent& event : stream) pairs[{event.user, event.item}].push_back(event);
  for (auto& [pair, events] : pairs) std::ranges::stable_sort(events, {}, &StreamEvent::time);
  return pairs;
}

/// Returns the pairs that remain after the rule of duplicates and the limits of rating and weight.
inline KeptOf rated(const Stream& stream, const PrepareOptions& options) {
  std::map<std::pair<int, int>, std::vector<std::size_t>> places;
  for (std::size_t place = 0; place < stream.size(); ++place)
    places[{stream[place].user, stream[place].item}].push_back(place);
  KeptOf kept;
  for (auto& [pair, of_pair] : places) {
    std::ranges::stable_sort(of_pair, {}, [&](std::size_t place) { return stream[place].time; });
    Stream events;
    for (const std::size_t place : of_pair) events.push_back(stream[place]);
    std::size_t chosen = options.duplicates == DuplicateRule::last ? events.size() - 1 : 0;
    double rating = events[chosen].rating;
    if (options.duplicates == DuplicateRule::sum || options.duplicates == DuplicateRule::max) {
      rating = rating_before(events, options, 1e9);
      for (chosen = 0; chosen + 1 < events.size(); ++chosen)
        if (passes(
                rating_before({events.begin(), events.begin() + static_cast<long>(chosen) + 1}, options, 1e9),
                options))
          break;
    }
    if (passes(rating, options))
      kept[pair.first][pair.second] = {events[chosen].time, of_pair[chosen], rating, events[chosen]};
  }
  return kept;
}

/// Removes the items with too few users, then the users with too few items. Returns whether any was removed.
inline bool apply_limits(KeptOf& kept, const PrepareOptions& options) {
  std::map<int, std::int64_t> users_of;
  for (const auto& [user, items] : kept)
    for (const auto& [item, event] : items) ++users_of[item];
  bool changed = false;
  for (auto& [user, items] : kept)
    changed |=
        std::erase_if(items, [&](const auto& e) { return users_of[e.first] < options.min_item_users; }) > 0;
  const auto few = [&](const auto& e) {
    return std::ssize(e.second) < std::max<std::int64_t>(1, options.min_user_items);
  };
  return (std::erase_if(kept, few) > 0) || changed;
}

/// Returns the pairs that all filters keep.
inline KeptOf filtered(const Stream& stream, const PrepareOptions& options) {
  KeptOf kept = rated(stream, options);
  while (apply_limits(kept, options) && options.repeat_filters && options.min_item_users > 0) {
  }
  return kept;
}

}  // namespace vaecf::data::test
