#include "data/source/ratings_builder.hpp"

#include <vaecf/data/date.hpp>

#include <chrono>
#include <cmath>
#include <iterator>

#include "data/source/data_issues.hpp"
#include "data/source/id_column.hpp"
#include "data/source/id_table.hpp"
#include "data/source/raw_ratings.hpp"
#include "data/source/source_formats.hpp"

namespace vaecf::data {
namespace {

// Consumes the first character of `text` if it is one of `any_of`.
bool take(std::string_view& text, std::string_view any_of) {
  if (text.empty() || any_of.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

bool take_digits(std::string_view& text, std::size_t count, int& number) {
  if (text.size() < count || text.front() == '-') return false;
  const bool found = parse_number(text.substr(0, count), number);
  text.remove_prefix(count);
  return found;
}

// Parses hh:mm[:ss[.fraction]], with or without colons, and adds it to `seconds`.
bool take_clock(std::string_view& text, double& seconds) {
  int hour = 0;
  int minute = 0;
  int second = 0;
  double fraction = 0.0;
  if (!take_digits(text, 2, hour)) return false;
  take(text, ":");
  if (!take_digits(text, 2, minute)) return false;
  const bool has_seconds = take(text, ":") || (!text.empty() && text.front() >= '0' && text.front() <= '9');
  if (has_seconds && !take_digits(text, 2, second)) return false;
  if (take(text, ".,")) {
    double digit = 0.1;
    const std::size_t before = text.size();
    for (; !text.empty() && text.front() >= '0' && text.front() <= '9'; text.remove_prefix(1), digit /= 10)
      fraction += digit * (text.front() - '0');
    if (text.size() == before) return false;
  }
  seconds += 3600.0 * hour + 60.0 * minute + second + fraction;
  return hour <= 24 && minute <= 59 && second <= 60;  // 60: a leap second
}

// Consumes a name in brackets behind an offset, as Java writes it: Z[UTC], +02:00[Europe/Paris].
void take_zone_name(std::string_view& text) {
  if (text.starts_with('[') && text.find(']') == text.size() - 1) text = {};
}

// Parses Z, UTC, GMT, +hh[:mm] or an empty time zone, and adjusts `seconds`.
bool take_zone(std::string_view& text, double& seconds) {
  for (const std::string_view name : {"UTC", "GMT", "Z", "z"}) {
    if (!text.starts_with(name)) continue;
    text.remove_prefix(name.size());
    take_zone_name(text);
    return true;
  }
  const bool east = text.starts_with('+');
  if (!take(text, "+-")) return true;
  int hours = 0;
  int minutes = 0;
  if (!take_digits(text, 2, hours)) return false;
  const bool more = take(text, ":") || (!text.empty() && text.front() != '[');
  if (more && !take_digits(text, 2, minutes)) return false;
  take_zone_name(text);
  seconds -= (east ? 1 : -1) * (3600.0 * hours + 60.0 * minutes);
  return true;
}

// Returns whether a time is a whole number of the form YYYYMMDD, from 1900 to 2100.
bool is_like_date(double time) {
  if (time < 19000101 || time > 21001231 || time != std::floor(time)) return false;
  double seconds = 0.0;
  return parse_date(format("{:.0f}", time), seconds);
}

}  // namespace

void DataIssues::throw_strict(std::string_view what, const std::string& where) {
  throw InputError(format("{}: {}; correct or remove it, or omit --strict", where, what));
}

DataIssue& DataIssues::of(std::string_view what, bool is_dropped) {
  const auto found = std::ranges::find(list_, what, &DataIssue::what);
  if (found != list_.end()) return *found;
  return list_.emplace_back(DataIssue{.what = std::string(what), .dropped = is_dropped, .examples = {}});
}

std::int64_t DataIssues::lines_dropped() const {
  std::int64_t lines = 0;
  for (const DataIssue& issue : list_) lines += issue.dropped ? issue.count : 0;
  return lines;
}

std::string DataIssues::most_frequent_example() const {
  const DataIssue* worst = nullptr;
  for (const DataIssue& issue : list_) {
    const bool worse = worst == nullptr || issue.count > worst->count;
    if (issue.dropped && !issue.examples.empty() && worse) worst = &issue;
  }
  return worst == nullptr ? "" : format("{}: {}", worst->examples.front(), worst->what);
}

void DataIssues::log_to(Log& log) const {
  for (const DataIssue& issue : list_) {
    std::string places;
    for (const std::string& example : issue.examples) places += "\n  " + example;
    log.warn("{} {}: {}{}", issue.count, issue.dropped ? "dropped" : "kept", issue.what, places);
  }
}

const char* id_problem(std::string_view id) {
  constexpr std::size_t max_bytes = 4096;  // limit of dataset files, in bytes
  if (id.empty()) return "id is empty";
  if (id.size() > max_bytes) return "id is longer than 4096 bytes";
  // Dataset files pad strings with zeros, so a zero byte would be lost.
  return id.find('\0') == std::string_view::npos ? nullptr : "id contains a zero byte";
}

ReadOptions make_read_options(const SourceOptions& source, const PrepareOptions& options, bool strict) {
  const bool by_time =
      options.split == SplitMethod::time ||
      ((options.split == SplitMethod::leave_one_out || options.split == SplitMethod::ratio) &&
       options.holdout == Holdout::last);
  ReadOptions wanted;
  wanted.min_rating = options.min_rating;
  wanted.part = options.split == SplitMethod::given;
  wanted.validation = options.validation_users > 0;
  wanted.test = options.test_users > 0;
  wanted.time = by_time || (takes_columns(source) && has_times(source));
  wanted.keep_untimed = !by_time;
  wanted.rating = combines_ratings(options.duplicates) || options.weights != WeightRule::none;
  wanted.strict = strict;
  return wanted;
}

std::int32_t IdColumn::number_of_text(std::string_view field, Id& kind) {
  kind = Id::known;
  if (!text_) {
    // All ids so far print exactly as in the source.
    for (const std::int64_t id : integers_.take()) strings_.find_or_add(std::to_string(id));
    text_ = true;
    if (strings_.size() > 0) kind = Id::turned_to_text;
  }
  const std::size_t before = strings_.size();
  const std::int32_t number = strings_.find_or_add(field);
  if (kind == Id::known && strings_.size() > before) kind = Id::fresh;
  return number;
}

bool IdColumn::only_first_is_text() const {
  const std::vector<std::string>& ids = strings_.ids();
  const auto is_integer = [](const std::string& id) {
    std::int64_t number = 0;
    return parse_integer_id(id, number);
  };
  return ids.size() > 1 && !is_integer(ids.front()) && std::all_of(ids.begin() + 1, ids.end(), is_integer);
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
  ratings_.events.add({user, item, index, part, rating >= wanted_.min_rating, time, rating});
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
      return lack_time("the time is neither a number nor a date with the year first", time);
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

void SourceLocations::start_file(const std::string& name) {
  files_.push_back(name);
  expected_line_ = -1;
}

std::string SourceLocations::location_of(std::int64_t event) const {
  const auto after = std::upper_bound(runs_.begin(), runs_.end(), event,
                                      [](std::int64_t e, const Run& run) { return e < run.event; });
  if (after == runs_.begin()) return "?";
  const Run& run = *std::prev(after);
  return format("{}:{}", files_[run.file], run.line + (run.line_each ? event - run.event : 0));
}

bool parse_date(std::string_view text, double& seconds) {
  int year = 0;
  int month = 0;
  int day = 0;
  if (!take_digits(text, 4, year)) return false;
  take(text, "-/");
  if (!take_digits(text, 2, month)) return false;
  take(text, "-/");
  if (!take_digits(text, 2, day)) return false;
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return false;
  seconds = 86400.0 * static_cast<double>(std::chrono::sys_days(date).time_since_epoch().count());
  if (text.empty()) return true;
  if (!take(text, " Tt") || !take_clock(text, seconds)) return false;
  take(text, " ");
  return take_zone(text, seconds) && text.empty();
}

std::string date_text(double seconds) {
  constexpr double per_day = 86400.0;
  const double day = std::floor(seconds / per_day);
  const std::chrono::year_month_day date{std::chrono::sys_days(std::chrono::days(static_cast<int>(day)))};
  std::string text = format("{:04}-{:02}-{:02}", static_cast<int>(date.year()),
                            static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
  const double rest = seconds - per_day * day;
  if (rest == 0.0) return text;
  const int clock = static_cast<int>(rest);
  text += format("T{:02}:{:02}:{:02}", clock / 3600, clock / 60 % 60, clock % 60);
  std::string fraction = format("{:.6f}", rest - clock).substr(1);
  fraction.erase(fraction.find_last_not_of('0') + 1);
  return fraction == "." ? text : text + fraction;
}

}  // namespace vaecf::data
