#include "data/source/ratings_builder.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/base/utf8.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace vaecf::data {

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

ReadOptions make_read_options(const PrepareOptions& options, bool strict) {
  ReadOptions wanted;
  wanted.min_rating = options.min_rating;
  wanted.part = options.split == SplitMethod::given;
  wanted.validation = options.validation_users > 0;
  wanted.test = options.test_users > 0;
  wanted.time = options.split == SplitMethod::time ||
                ((options.split == SplitMethod::leave_one_out || options.split == SplitMethod::ratio) &&
                 options.holdout == Holdout::last);
  wanted.rating = combines_ratings(options.duplicates);
  wanted.strict = strict;
  return wanted;
}

std::int32_t IdColumn::number_of_text(std::string_view field, Id& kind) {
  kind = Id::known;
  if (!text_) {
    // All ids so far print exactly as in the source.
    for (const std::int64_t id : integers_.take()) strings_.find_or_add(std::to_string(id));
    text_ = true;
    kind = Id::turned_to_text;
  }
  const std::size_t before = strings_.size();
  const std::int32_t number = strings_.find_or_add(field);
  if (kind == Id::known && strings_.size() > before) kind = Id::fresh;
  return number;
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
  if (!is_utf8(field)) {
    issues().kept(format("the {} id is not UTF-8 and is stored unchanged", what), [&] { return where(); });
  }
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
  Times form = Times::numbers;
  if (!parse_number(field, time) || !std::isfinite(time)) {
    if (!parse_date(field, time)) {
      drop("the time is neither a number nor a date with the year first");
      return false;
    }
    form = Times::dates;
  }
  if (times_ == Times::unknown) times_ = form;
  if (times_ == form) return true;
  drop(form == Times::dates ? "the time is a date, but a number on earlier lines"
                            : "the time is a number, but a date on earlier lines");
  return false;
}

RawRatings RatingsBuilder::take() {
  ratings_.times_are_dates = times_ == Times::dates;
  if (!ratings_.numbered_by_source) {
    ratings_.user_ids = users_.take();
    ratings_.item_ids = items_.take();
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

}  // namespace vaecf::data
