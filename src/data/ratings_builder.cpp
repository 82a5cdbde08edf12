#include "data/ratings_builder.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/base/utf8.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "data/dates.hpp"
#include "data/event_buckets.hpp"

namespace vaecf::data {
namespace {

// What an event takes in memory at the peak: as it is read, and while repeated ones are looked for or the
// split is made.
double bytes_of_event(const Wanted& wanted) {
  return 18.0 + (wanted.time ? 24.0 : 0.0) + (wanted.part ? 10.0 : 0.0);
}

bool parse_number(std::string_view field, double& number) {
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), number);
  return error == std::errc{} && end == field.data() + field.size();
}

}  // namespace

std::int32_t IdColumn::number_of_text(std::string_view field, Id& kind) {
  kind = Id::known;
  if (!text_) {
    // Those so far print back as they were written, or they would be text already.
    for (const std::int64_t id : integers_.take()) strings_.find_or_add(std::to_string(id));
    text_ = true;
    kind = Id::turned_to_text;
  }
  const std::size_t before = strings_.size();
  const std::int32_t number = strings_.find_or_add(field);
  if (kind == Id::known && strings_.size() > before) kind = Id::fresh;
  return number;
}

RatingsBuilder::RatingsBuilder(const Wanted& wanted, Log& log) : wanted_(wanted), log_(&log) {
  ratings_.findings = Findings(wanted.strict);
  const double most = wanted.memory / bytes_of_event(wanted);
  if (most < 1e15) most_events_ = static_cast<std::size_t>(std::max(1.0, most));
}

void RatingsBuilder::start_file(const std::string& name, Part part) {
  file_ = name;
  part_ = part;
  ratings_.places.start_file(name);
}

std::string RatingsBuilder::where() const {
  return format("{}:{}: '{}'", file_, line_, excerpt(text_));
}

bool RatingsBuilder::is_id(std::string_view field, const char* what) {
  if (field.empty()) {
    drop(format("the {} is empty", what));
  } else if (field.size() > longest_id) {
    drop(format("the {} id is longer than {} bytes", what, longest_id));
  } else if (field.find('\0') != std::string_view::npos) {  // files of ours could not give it back
    drop(format("the {} id holds a zero byte", what));
  } else {
    return true;
  }
  return false;
}

std::int32_t RatingsBuilder::number(IdColumn& column, std::string_view field, const char* what) {
  auto kind = IdColumn::Id::known;
  const std::int32_t number = column.number(field, kind);
  if (kind == IdColumn::Id::known) return number;
  if (kind == IdColumn::Id::turned_to_text) {
    log_->warn("{}:{}: {} id '{}' is not an integer: {} ids are taken as text{}", file_, line_, what,
               excerpt(field), what, what == std::string_view("user") ? ", and sorted as text" : "");
  }
  if (!is_utf8(field)) {
    findings().kept(format("the {} id is not UTF-8 and is taken as it is", what), [&] { return where(); });
  }
  return number;
}

bool RatingsBuilder::add(std::string_view user_field, std::string_view item_field, bool liked, double time,
                         bool and_more) {
  // Both first: what is dropped gives nobody a number, nor makes text of the others' ids.
  if (!is_id(user_field, "user") || !is_id(item_field, "item")) return false;
  const std::int32_t user = number(users_, user_field, "user");
  append(user, number(items_, item_field, "item"), liked, time, and_more);
  return true;
}

void RatingsBuilder::append(std::int32_t user, std::int32_t item, bool liked, double time, bool and_more) {
  Events& events = ratings_.events;
  ratings_.places.add(count(), line_, and_more);
  events.user.push_back(user);
  events.item.push_back(item);
  if (wanted_.time) events.time.push_back(time);
  if (wanted_.part) events.part.push_back(part_);
  ratings_.liked.push_back(liked ? 1 : 0);
}

void RatingsBuilder::add_numbered(std::int32_t user, std::int32_t item) {
  append(user, item, true, 0.0, false);
}

bool RatingsBuilder::read_rating(std::string_view field, bool& liked) {
  if (field.empty()) {
    drop("the rating is empty");
    return false;
  }
  double rating = 0;
  if (!parse_number(field, rating)) {
    drop("the rating is not a number");
    return false;
  }
  if (!std::isfinite(rating)) {
    drop("the rating is not a finite number");
    return false;
  }
  liked = rating >= wanted_.min_rating;
  return true;
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
  drop(form == Times::dates ? "the time is a date, but a number on the lines before"
                            : "the time is a number, but a date on the lines before");
  return false;
}

void RatingsBuilder::more_room(double share_read) {
  if (ratings_.liked.size() >= most_events_) {
    spill(share_read);
  } else {
    grow(share_read);
  }
  room_ = std::min(most_events_, std::max(ratings_.liked.capacity(), ratings_.liked.size() + 1));
}

void RatingsBuilder::spill(double share_read) {
  constexpr double most_buckets = 1024.0;
  constexpr std::size_t most_at_once = std::size_t{1} << 22;
  if (!ratings_.spilled) {
    // A bucket is in memory up to three times while it is sorted, and the next is read meanwhile.
    const double bytes = static_cast<double>(ratings_.liked.size()) * (wanted_.time ? 96.0 : 64.0);
    const double buckets = 1.0 + 2.0 * bytes / (wanted_.memory * std::clamp(share_read, 1e-6, 1.0));
    log_->info(
        "events do not fit into {:.2f} GiB (data.prepare.memory_gib): they go to a temporary file beside {}",
        wanted_.memory / 1073741824.0, wanted_.spill_beside);
    ratings_.spilled = std::make_shared<EventBuckets>(
        wanted_.spill_beside, static_cast<std::int64_t>(std::min(buckets, most_buckets)), wanted_.time);
  }
  ratings_.spilled->add(ratings_.events, ratings_.liked, ratings_.spilled_events);
  ratings_.spilled_events = count();
  ratings_.events = {};
  ratings_.liked = {};
  most_events_ = std::min(most_events_, most_at_once);
  grow(1.0);
}

void RatingsBuilder::grow(double share_read) {
  const auto estimate = static_cast<double>(ratings_.liked.size()) / share_read * 1.02;
  if (!(estimate > 1e5) || !(estimate < 1e11)) return;
  const std::size_t capacity =
      std::min(most_events_, static_cast<std::size_t>(estimate) + ratings_.liked.size() / 16);
  ratings_.events.user.reserve(capacity);
  ratings_.events.item.reserve(capacity);
  if (wanted_.time) ratings_.events.time.reserve(capacity);
  if (wanted_.part) ratings_.events.part.reserve(capacity);
  ratings_.liked.reserve(capacity);
}

RawRatings RatingsBuilder::take() {
  if (ratings_.spilled) spill(1.0);
  if (!ratings_.numbered_by_source) {
    ratings_.user_ids = users_.take();
    ratings_.item_ids = items_.take();
  }
  return std::move(ratings_);
}

}  // namespace vaecf::data
