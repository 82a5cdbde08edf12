#include "data/spilled_filter.hpp"

#include <vaecf/base/format.hpp>

#include <algorithm>
#include <numeric>

#include "data/split_writer.hpp"

namespace vaecf::data {
namespace {

// Puts the events of a bucket in the order that counts, where that is not the one of the file.
class PlaceOrder {
 public:
  explicit PlaceOrder(const std::vector<Segment>& order) {
    std::int64_t place = 0;
    for (const Segment& segment : order) {
      if (segment.end > segment.begin) moves_.push_back({segment.begin, place});
      place += segment.end - segment.begin;
    }
    std::sort(moves_.begin(), moves_.end(), [](const Move& a, const Move& b) { return a.from < b.from; });
  }

  void apply(EventBuckets::Bucket& bucket) const {
    if (moves_.empty()) return;
    for (SpilledEvent& event : bucket.events) {
      const auto after =
          std::upper_bound(moves_.begin(), moves_.end(), event.place(),
                           [](std::int64_t place, const Move& move) { return place < move.from; });
      const Move& move = *std::prev(after);
      event.move_to(event.place() - move.from + move.to);
    }
    std::vector<std::uint32_t> order(bucket.events.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return bucket.events[a].place() < bucket.events[b].place();
    });
    EventBuckets::Bucket sorted;
    for (const std::uint32_t e : order) sorted.events.push_back(bucket.events[e]);
    for (const std::uint32_t e : order) {
      if (!bucket.times.empty()) sorted.times.push_back(bucket.times[e]);
    }
    bucket = std::move(sorted);
  }

 private:
  struct Move {
    std::int64_t from;
    std::int64_t to;
  };
  std::vector<Move> moves_;
};

// Keeps the first of each (user, item), and counts the others; the first few of those for the findings.
class FirstOnly {
 public:
  explicit FirstOnly(std::int64_t items) : last_mark_(static_cast<std::size_t>(items), -1) {}

  bool is_first(const SpilledEvent& event) {
    constexpr std::int64_t parts = 8;  // a pair counts once for each
    const std::int64_t mark = event.user * parts + static_cast<std::int64_t>(event.part());
    std::int64_t& seen = last_mark_[static_cast<std::size_t>(event.item)];
    if (seen != mark) {
      seen = mark;
      return true;
    }
    ++dropped_;
    const auto at =
        std::upper_bound(shown_.begin(), shown_.end(), event,
                         [](const SpilledEvent& a, const SpilledEvent& b) { return a.place() < b.place(); });
    if (at - shown_.begin() < 3) shown_.insert(at, event);
    if (shown_.size() > 3) shown_.pop_back();
    return false;
  }
  std::int64_t dropped() const { return dropped_; }

  void tell(RawRatings& ratings) const {
    constexpr const char* what = "user and item stand in an earlier line, which counts";
    for (const SpilledEvent& event : shown_) {
      ratings.findings.dropped(what, [&] {
        return format("{}: user {}, item {}", ratings.places.of(event.place()),
                      ratings.user_ids.text(event.user), ratings.item_ids.text(event.item));
      });
    }
    const auto told = static_cast<std::int64_t>(shown_.size());
    if (dropped_ > told) ratings.findings.add_unseen(what, dropped_ - told);
  }

 private:
  std::vector<std::int64_t> last_mark_;
  std::vector<SpilledEvent> shown_;  // by place
  std::int64_t dropped_ = 0;
};

class Filtering {
 public:
  Filtering(RawRatings& ratings, const PrepareOptions& options, PrepareReport& report, Progress& progress)
      : ratings_(&ratings),
        options_(&options),
        report_(&report),
        progress_(&progress),
        items_(ratings.item_ids.size()) {
    filter_.events_of.resize(static_cast<std::size_t>(ratings.user_ids.size()));
    filter_.users_of.resize(static_cast<std::size_t>(items_));
  }

  SpilledFilter run() {
    keep_liked_firsts();
    const bool given = options_->split == "given";  // whoever made the split has filtered
    const std::string by_items = format("items with >= {} users", options_->min_item_users);
    const std::string by_users = format("users with >= {} items", options_->min_user_items);
    const bool items_first = !given && options_->min_item_users > 0;
    if (items_first) {
      filter_.min_item_users = options_->min_item_users;
      count_kept();
      add_step(of_items_, by_items, "lower data.prepare.min_item_users");
    }
    if (!given) add_step(of_users_, by_users, "lower data.prepare.min_user_items");
    return std::move(filter_);
  }

 private:
  void add_step(const Tally& tally, const std::string& step, std::string_view advice) {
    require_events(tally.events(), step, advice);
    report_->steps.push_back(tally.step(step));
  }

  void keep_liked_firsts() {
    EventBuckets& buckets = *ratings_->spilled;
    const PlaceOrder order(ratings_->order);
    FirstOnly first(items_);
    Tally raw(items_);
    Tally firsts(items_);
    Tally liked(items_);
    of_users_ = Tally(items_);
    std::int64_t done = 0;
    progress_->begin("looking for repeated ones", ratings_->size(), "events");
    for_each_bucket(buckets, [&](std::int64_t b, EventBuckets::Bucket& bucket) {
      done += static_cast<std::int64_t>(bucket.events.size());
      order.apply(bucket);
      group_by_user(bucket, buckets.count());
      std::size_t kept = 0;
      for_each_user(bucket, [&](std::span<SpilledEvent> events, std::span<double> times) {
        const std::size_t before = kept;
        for (std::size_t e = 0; e < events.size(); ++e) {
          const SpilledEvent event = events[e];
          raw.add(event.item);
          if (!first.is_first(event)) continue;
          firsts.add(event.item);
          if (!event.liked()) continue;
          liked.add(event.item);
          ++filter_.users_of[static_cast<std::size_t>(event.item)];
          note_part(event);
          if (!times.empty()) bucket.times[kept] = times[e];
          bucket.events[kept++] = event;
        }
        raw.add_user();
        firsts.add_user();
        if (kept > before) liked.add_user();
        keep_user(std::span(bucket.events).subspan(before, kept - before));
      });
      bucket.events.resize(kept);
      bucket.times.resize(bucket.times.empty() ? 0 : kept);
      buckets.replace(b, bucket);
      progress_->update(done);
    });
    progress_->end();

    report_->lines_read = ratings_->lines;
    report_->events_read = ratings_->size();
    report_->steps.push_back(raw.step("raw"));
    report_->duplicates_dropped = first.dropped();
    first.tell(*ratings_);
    ratings_->places = {};
    report_->steps.push_back(firsts.step("first of each (user, item)"));
    add_step(liked, format("rating >= {}", options_->min_rating), "lower data.prepare.min_rating");
  }

  void note_part(const SpilledEvent& event) {
    Range& users = filter_.users_of_part[static_cast<std::size_t>(event.part())];
    if (users.size() == 0) users = {event.user, event.user + 1};
    users = {std::min<std::int64_t>(users.begin, event.user),
             std::max<std::int64_t>(users.end, event.user + 1)};
  }

  // The events of one user, which all steps before have kept.
  void keep_user(std::span<const SpilledEvent> events) {
    if (events.empty()) return;
    const bool few =
        options_->split != "given" && static_cast<std::int64_t>(events.size()) < options_->min_user_items;
    filter_.events_of[static_cast<std::size_t>(events.front().user)] =
        few ? 0 : static_cast<std::int32_t>(events.size());
    if (few) return;
    for (const SpilledEvent& event : events) of_users_.add(event.item);
    of_users_.add_user();
  }

  // The second pass, where items must have users enough.
  void count_kept() {
    const EventBuckets& buckets = *ratings_->spilled;
    of_items_ = Tally(items_);
    of_users_ = Tally(items_);
    std::fill(filter_.events_of.begin(), filter_.events_of.end(), 0);
    progress_->begin("counting users of items", buckets.count(), "buckets");
    std::vector<SpilledEvent> kept;
    for_each_bucket(buckets, [&](std::int64_t b, EventBuckets::Bucket& bucket) {
      for_each_user(bucket, [&](std::span<SpilledEvent> events, std::span<double>) {
        kept.clear();
        for (const SpilledEvent& event : events) {
          if (filter_.users_of[static_cast<std::size_t>(event.item)] < filter_.min_item_users) continue;
          of_items_.add(event.item);
          kept.push_back(event);
        }
        if (!kept.empty()) of_items_.add_user();
        keep_user(kept);
      });
      progress_->update(b + 1);
    });
    progress_->end();
  }

  RawRatings* ratings_;
  const PrepareOptions* options_;
  PrepareReport* report_;
  Progress* progress_;
  std::int64_t items_;
  SpilledFilter filter_;
  Tally of_items_;
  Tally of_users_;
};

}  // namespace

SpilledFilter filter_spilled(RawRatings& ratings, const PrepareOptions& options, PrepareReport& report,
                             Progress& progress) {
  return Filtering(ratings, options, report, progress).run();
}

}  // namespace vaecf::data
