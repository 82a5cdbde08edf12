#include "data/source/ratings_builder.hpp"

#include <vaecf/data/date.hpp>

#include <cmath>

#include "data/source/data_issues.hpp"
#include "data/source/id_column.hpp"
#include "data/source/raw_ratings.hpp"
#include "data/source/source_formats.hpp"

namespace vaecf::data {
namespace {

// Returns whether a time is a whole number of the form YYYYMMDD, from 1900 to 2100.
bool is_like_date(double time) {
  if (time < 19000101 || time > 21001231 || time != std::floor(time)) return false;
  double seconds = 0.0;
  return parse_date(format("{:.0f}", time), seconds);
}

}  // namespace

ReadOptions make_read_options(const SourceOptions& source, const PrepareOptions& options, bool strict) {
  const bool by_time =
      options.split == SplitMethod::time ||
      ((options.split == SplitMethod::leave_one_out || options.split == SplitMethod::ratio) &&
       options.held_out == HeldOut::last);
  ReadOptions wanted;
  wanted.min_rating = options.min_rating;
  wanted.part = options.split == SplitMethod::given;
  wanted.validation = options.validation_users != 0;
  wanted.test = options.test_users != 0;
  wanted.time = by_time || (takes_columns(source) && has_times(source));
  wanted.keep_untimed = !by_time;
  wanted.rating = combines_ratings(options.duplicates) || options.weights != WeightRule::none;
  wanted.strict = strict;
  return wanted;
}

RatingsBuilder::RatingsBuilder(const ReadOptions& wanted, Log& log)
    : wanted_(wanted),
      log_(&log),
      ratings_{.events = EventStore(make_event_memory(wanted.memory, wanted.spill_beside, log),
                                    wanted.rating ? EventFields::rating_and_time
                                    : wanted.time ? EventFields::time
                                                  : EventFields::basic),
               .issues = DataIssues(wanted.strict)} {}

void RatingsBuilder::start_file(const std::string& name, SplitPart part) {
  file_ = name;
  part_ = part;
  ratings_.locations.start_file(name);
}

std::string RatingsBuilder::where() const {
  return format("{}:{}: '{}'", file_, line_, excerpt(text_));
}

bool RatingsBuilder::is_id(std::string_view field, const char* what) {
  const char* const problem = id_problem(field);
  if (problem != nullptr) drop(format("the {} {}", what, problem));
  return problem == nullptr;
}

std::int32_t RatingsBuilder::number(IdColumn& column, std::string_view field, const char* what) {
  auto kind = IdColumn::Id::known;
  const std::int32_t number = column.number(field, kind);
  if (kind == IdColumn::Id::known) return number;
  if (kind == IdColumn::Id::turned_to_text) {
    log_->warn("{}:{}: {} id '{}' is not an integer; all {} ids are stored as strings{}", file_, line_, what,
               excerpt(field), what, what == std::string_view("user") ? ", and sorted as strings" : "");
  }
  if (!is_utf8(field))
    issues().kept(format("the {} id is not UTF-8 and is stored unchanged", what), [&] { return where(); });
  return number;
}

bool RatingsBuilder::add(std::string_view user_field, std::string_view item_field, double rating, double time,
                         bool and_more) {
  // Both ids are checked first, so that a dropped line adds no user or item and does not turn ids into
  // strings.
  if (!is_id(user_field, "user") || !is_id(item_field, "item")) return false;
  const std::int32_t user = number(users_, user_field, "user");
  append(user, number(items_, item_field, "item"), rating, time, and_more);
  return true;
}

void RatingsBuilder::append(std::int32_t user, std::int32_t item, double rating, double time, bool and_more) {
  const std::int64_t index = ratings_.events.size();
  ratings_.locations.add(index, line_, and_more);
  const SplitPart part = wanted_.part ? part_ : SplitPart::train;
  if (wanted_.min_rating == PrepareOptions::no_minimum && rating != no_rating) count_rating(rating);
  ratings_.events.add({user, item, index, part, rating >= wanted_.min_rating, time, rating});
}

void RatingsBuilder::count_rating(double rating) {
  constexpr std::size_t max_values = 1000;
  std::map<double, std::int64_t>& counts = ratings_.rating_counts;
  if (counts.size() <= max_values) ++counts[rating];
}

void RatingsBuilder::add_numbered(std::int32_t user, std::int32_t item) {
  append(user, item, no_rating, 0.0, false);
}

bool RatingsBuilder::read_rating(std::string_view field, double& rating) {
  const char* const problem = field.empty()                  ? "the rating is empty"
                              : !parse_number(field, rating) ? "the rating is not a number"
                              : !std::isfinite(rating)       ? "the rating is not a finite number"
                                                             : nullptr;
  if (problem != nullptr) drop(problem);
  return problem == nullptr;
}

bool RatingsBuilder::read_time(std::string_view field, double& time) {
  if (field.empty()) return lack_time("the time is empty", time);
  Times form = Times::numbers;
  if (!parse_number(field, time) || !std::isfinite(time)) {
    form = Times::dates;
    if (!parse_date(field, time))
      return lack_time("the time is neither a number nor a date with the year first (2023-12-31 18:00)",
                       time);
  }
  if (times_ == Times::unknown) {
    times_ = form;
    first_time_ = time;
  }
  if (times_ != form) {
    return lack_time(form == Times::dates ? "the time is a date, but a number on earlier lines"
                                          : "the time is a number, but a date on earlier lines",
                     time);
  }
  all_like_dates_ = all_like_dates_ && is_like_date(time);
  return true;
}

bool RatingsBuilder::lack_time(std::string_view what, double& time) {
  if (!wanted_.keep_untimed) {
    drop(what);
    return false;
  }
  issues().kept(format("{}; the line counts as the last of its user and item", what),
                [&] { return where(); });
  time = std::numeric_limits<double>::infinity();
  return true;
}

io::IdList RatingsBuilder::take_ids(IdColumn& column, const char* what) {
  const bool is_header = column.only_first_is_text();
  io::IdList ids = column.take();
  if (is_header) {
    log_->warn(
        "{}: {} id '{}' is not an integer, but all others are; remove the header, or set data.source.header",
        ratings_.locations.location_of(0), what, excerpt(ids.strings.front()));
  }
  return ids;
}

RawRatings RatingsBuilder::take() {
  ratings_.times_are_dates = times_ == Times::dates;
  if (times_ == Times::numbers && all_like_dates_) {
    log_->warn(
        "all times are whole numbers of the form YYYYMMDD, such as {:.0f}, and are read as numbers; write dates with separators, as 2005-09-06",
        first_time_);
  }
  if (!ratings_.numbered_by_source) {
    ratings_.user_ids = take_ids(users_, "user");
    ratings_.item_ids = take_ids(items_, "item");
  }
  return std::move(ratings_);
}

}  // namespace vaecf::data
