#include "data/filter.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <algorithm>

namespace vaecf::data {
namespace {

std::vector<std::int64_t> occurrences(const std::vector<std::int32_t>& numbers) {
  std::vector<std::int64_t> count;
  for (const std::int32_t n : numbers) {
    const auto index = static_cast<std::size_t>(n);
    if (index >= count.size()) count.resize(index + 1);
    ++count[index];
  }
  return count;
}

std::int64_t distinct(const std::vector<std::int32_t>& numbers) {
  const std::vector<std::int64_t> count = occurrences(numbers);
  return std::count_if(count.begin(), count.end(), [](std::int64_t n) { return n > 0; });
}

}  // namespace

void require_events(std::int64_t left, std::string_view step, std::string_view advice) {
  if (left > 0) return;
  throw InputError(format("no event is left after the step '{}': {}", step, advice));
}

StepCount count_events(std::string step, const Events& events) {
  return {std::move(step), events.size(), distinct(events.user), distinct(events.item)};
}

std::int64_t drop_duplicates(RawRatings& ratings) {
  Events& events = ratings.events;
  const auto count = static_cast<std::size_t>(events.size());
  // Events by user, in file order: place[u] walks from where user u's begin to where they end.
  std::vector<std::int64_t> place = occurrences(events.user);
  std::int64_t begin = 0;
  for (std::int64_t& p : place) begin += std::exchange(p, begin);
  std::vector<std::int64_t> by_user(count);
  for (std::size_t e = 0; e < count; ++e) {
    by_user[static_cast<std::size_t>(place[static_cast<std::size_t>(events.user[e])]++)] =
        static_cast<std::int64_t>(e);
  }

  // A pair counts once for each part of a source that is split already; each part is read in one go.
  constexpr std::int64_t parts = 8;
  const auto mark_of = [&](std::size_t e) {
    return events.user[e] * parts + (events.part.empty() ? 0 : static_cast<std::int64_t>(events.part[e]));
  };
  constexpr std::uint8_t duplicate = 2;
  std::vector<std::int64_t> last_mark(static_cast<std::size_t>(ratings.item_ids.size()), -1);
  std::int64_t dropped = 0;
  for (const std::int64_t event : by_user) {
    const auto e = static_cast<std::size_t>(event);
    std::int64_t& seen = last_mark[static_cast<std::size_t>(events.item[e])];
    if (seen == mark_of(e)) {
      ratings.liked[e] = duplicate;
      ++dropped;
    }
    seen = mark_of(e);
  }
  if (dropped > 0) {
    events.retain([&](std::size_t e) {
      if (ratings.liked[e] != duplicate) return true;
      ratings.findings.dropped("user and item stand in an earlier line, which counts", [&] {
        return format("{}: user {}, item {}", ratings.places.of(static_cast<std::int64_t>(e)),
                      ratings.user_ids.text(events.user[e]), ratings.item_ids.text(events.item[e]));
      });
      return false;
    });
    std::erase(ratings.liked, duplicate);
  }
  ratings.places = {};
  return dropped;
}

void filter_events(RawRatings& ratings, const PrepareOptions& options, PrepareReport& report) {
  Events& events = ratings.events;
  report.lines_read = ratings.lines;
  report.events_read = events.size();
  report.steps.push_back(count_events("raw", events));

  report.duplicates_dropped = drop_duplicates(ratings);
  report.steps.push_back(count_events("first of each (user, item)", events));

  events.retain([&](std::size_t e) { return ratings.liked[e] != 0; });
  ratings.liked = {};
  std::string step = format("rating >= {}", options.min_rating);
  require_events(events.size(), step, "lower data.prepare.min_rating");
  report.steps.push_back(count_events(step, events));
  if (options.split == "given") return;  // whoever made the split has filtered

  if (options.min_item_users > 0) {
    const auto users_of = occurrences(events.item);
    events.retain([&](std::size_t e) {
      return users_of[static_cast<std::size_t>(events.item[e])] >= options.min_item_users;
    });
    step = format("items with >= {} users", options.min_item_users);
    require_events(events.size(), step, "lower data.prepare.min_item_users");
    report.steps.push_back(count_events(step, events));
  }

  const auto items_of = occurrences(events.user);
  events.retain([&](std::size_t e) {
    return items_of[static_cast<std::size_t>(events.user[e])] >= options.min_user_items;
  });
  step = format("users with >= {} items", options.min_user_items);
  require_events(events.size(), step, "lower data.prepare.min_user_items");
  report.steps.push_back(count_events(step, events));
}

}  // namespace vaecf::data
