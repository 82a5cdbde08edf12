#include "data/prepare/time_split.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/data/date.hpp>

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "data/prepare/filter.hpp"
#include "data/prepare/split_counter.hpp"
#include "data/prepare/split_draws.hpp"

namespace vaecf::data {
namespace {

constexpr std::size_t sides = 3;  // before, between and after the cuts

constexpr std::uint64_t sign = std::uint64_t{1} << 63;

// Maps finite times to integers in the same order.
std::uint64_t to_ordered(double time) {
  const auto bits = std::bit_cast<std::uint64_t>(time + 0.0);  // -0.0 becomes 0.0
  return (bits & sign) != 0 ? ~bits : bits | sign;
}

double from_ordered(std::uint64_t key) {
  return std::bit_cast<double>((key & sign) != 0 ? key ^ sign : ~key);
}

// Returns the times at the positions floor(q n) of the n sorted times: at most the fraction q of the events
// is earlier. Each pass over the events determines 16 bits of both times, so memory does not depend on n.
std::array<double, 2> times_at(const std::vector<double>& quantiles, Filter& filter) {
  constexpr int digit_bits = 16;
  const auto& events_of = filter.events_of();
  const std::int64_t n = std::accumulate(events_of.begin(), events_of.end(), std::int64_t{0});
  std::array<std::int64_t, 2> before{};  // events before the time, among those with its known bits
  for (std::size_t c = 0; c < before.size(); ++c)
    before[c] = std::min(n - 1, static_cast<std::int64_t>(quantiles[c] * static_cast<double>(n)));
  std::array<std::uint64_t, 2> known{};
  for (int shift = 64 - digit_bits; shift >= 0; shift -= digit_bits) {
    std::array<std::vector<std::int64_t>, 2> count;
    for (auto& each : count) each.assign(std::size_t{1} << digit_bits, 0);
    filter.each_user({.label = "finding the quantiles of time"}, [&](std::span<const Event> events) {
      for (const Event& event : events) {
        const std::uint64_t key = to_ordered(event.time);
        for (std::size_t c = 0; c < count.size(); ++c) {
          const std::uint64_t rest = (key ^ known[c]) >> shift;
          if (rest >> digit_bits == 0) ++count[c][rest];
        }
      }
    });
    for (std::size_t c = 0; c < count.size(); ++c) {
      std::uint64_t digit = 0;
      while (before[c] >= count[c][digit]) before[c] -= count[c][digit++];
      known[c] |= digit << shift;
    }
  }
  return {from_ordered(known[0]), from_ordered(known[1])};
}

std::array<double, 2> times_of(const std::vector<std::string>& dates) {
  std::array<double, 2> times{};
  for (std::size_t c = 0; c < times.size(); ++c) {
    if (!parse_date(dates[c], times[c])) {
      throw InputError(
          format("data.prepare.dates: '{}' is not a date with the year first; use a date such as 2015-01-31",
                 excerpt(dates[c])));
    }
  }
  return times;
}

/// Returns a time as a date if it is one in the source, or a number of seconds since 1970 from the years 1973
/// to 5138.
std::string text_of_time(double time, bool is_date) {
  return is_date || (time >= 1e8 && time < 1e11) ? date_text(time) : format("{}", time);
}

/// Returns advice if times that are numbers cannot be seconds since 1970, but thousandths, millionths or
/// billionths.
std::string hint_on_unit(double time, bool is_date) {
  if (is_date || time < 1e11) return "";
  const char* const unit = time < 1e14 ? "milli" : time < 1e17 ? "micro" : "nano";
  return format(
      "; the times look like {}seconds since 1970, but numbers are read as seconds for data.prepare.dates: convert them",
      unit);
}

}  // namespace

TimeSplit::TimeSplit(const RawRatings& ratings, Filter& filter, const PrepareOptions& options,
                     PrepareReport& report) {
  const bool dated = !options.dates.empty();
  cuts_ = dated ? times_of(options.dates) : times_at(options.time_quantiles, filter);

  double first = std::numeric_limits<double>::infinity();
  double last = -first;
  std::vector<std::uint8_t> sides_of(filter.events_of().size(), 0);  // bit s: the user has events on side s
  std::array<SplitCounter, sides> counts;
  counts.fill(SplitCounter(ratings.item_ids.size()));
  std::array<std::vector<Event>, sides> on_side;
  filter.each_user({.label = "cutting by time"}, [&](std::span<const Event> events) {
    for (auto& each : on_side) each.clear();
    for (const Event& event : events) {
      first = std::min(first, event.time);
      last = std::max(last, event.time);
      const std::size_t side = event.time < cuts_[0] ? 0 : event.time < cuts_[1] ? 1 : 2;
      sides_of[event.user] |= static_cast<std::uint8_t>(1u << side);
      on_side[side].push_back(event);
    }
    for (std::size_t s = 0; s < sides; ++s) counts[s].add_row(on_side[s]);
  });
  if (first == last) {
    throw InputError(format(
        "data.prepare.split: time requires times, but all {} events have the time {}; set data.source.time_column if the source has other times, or use another split",
        std::accumulate(filter.events_of().begin(), filter.events_of().end(), std::int64_t{0}),
        text_of_time(first, ratings.times_are_dates)));
  }
  const auto shown = [&](double time) { return text_of_time(time, ratings.times_are_dates); };
  const auto cut = [&](std::size_t c) { return dated ? options.dates[c] : shown(cuts_[c]); };
  report.stages.push_back(counts[0].stage("time before " + cut(0)));
  report.stages.push_back(counts[1].stage(format("time from {} to before {}", cut(0), cut(1))));
  report.stages.push_back(counts[2].stage("time from " + cut(1)));

  const auto order = shuffled_users(sorted_users(filter.events_of(), ratings.user_ids), options.seed);
  const std::array<std::int64_t, 3> wanted{PrepareOptions::automatic, options.validation_users,
                                           options.test_users};
  const auto contains = [](std::size_t part, std::uint8_t on) {
    return part == 2 ? (on & 3) != 0 && (on & 4) != 0 : (on & 1) != 0 && (part == 0 || (on & 2) != 0);
  };
  const char* const key = dated ? "data.prepare.dates" : "data.prepare.time_quantiles";
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    const auto begin = static_cast<std::int64_t>(users_.size());
    row_of_[part].assign(sides_of.size(), -1);
    for (const std::int32_t user : order) {
      const auto count = static_cast<std::int64_t>(users_.size()) - begin;
      if (count == wanted[part]) break;
      if (!contains(part, sides_of[user])) continue;
      row_of_[part][user] = static_cast<std::int32_t>(users_.size());
      users_.push_back(user);
    }
    parts_[part] = {begin, static_cast<std::int64_t>(users_.size())};
    if (parts_[part].size() > 0 || wanted[part] == 0) continue;
    constexpr std::array problems{"no event is before the first cut",
                                  "no user has events both before the first cut and between the cuts",
                                  "no user has events on both sides of the second cut"};
    throw InputError(
        format("{}: {}; the cuts are {} and {}, and the times of the events {} to {}; change {}{}", key,
               problems[part], cut(0), cut(1), shown(first), shown(last), key,
               dated ? hint_on_unit(last, ratings.times_are_dates) : ""));
  }
}

void TimeSplit::add(Event event, EventStore& rows) const {
  const auto user = static_cast<std::size_t>(event.user);
  const auto add_to = [&](std::size_t part, SplitPart as) {
    event.user = row_of_[part][user];
    event.part = as;
    if (event.user >= 0) rows.add(event);
  };
  const bool train = is_train(event);
  const bool before_test = event.time < cuts_[1];
  add_to(2, before_test ? SplitPart::test_fold_in : SplitPart::test);
  event.rating = event.train_rating;
  if (train) add_to(0, SplitPart::train);
  if (before_test) add_to(1, train ? SplitPart::validation_fold_in : SplitPart::validation);
}

}  // namespace vaecf::data
