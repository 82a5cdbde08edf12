#include "data/spilled_split.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "data/spilled_rows.hpp"

namespace vaecf::data {
namespace {

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

// Where an item comes first in the file: among events to train on, and among all.
struct FirstPlaces {
  explicit FirstPlaces(std::int64_t items)
      : in_train(static_cast<std::size_t>(items), never), anywhere(static_cast<std::size_t>(items), never) {}
  void add(const SpilledEvent& event, bool train) {
    const auto item = static_cast<std::size_t>(event.item);
    if (train) in_train[item] = std::min(in_train[item], event.place());
    anywhere[item] = std::min(anywhere[item], event.place());
  }
  // Items by first place, those of train before all others.
  std::vector<std::int32_t> numbered(bool whole_catalogue) const {
    std::vector<std::int32_t> items = sorted_by(in_train, [](std::size_t) { return true; });
    if (!whole_catalogue) return items;
    const auto others = sorted_by(anywhere, [&](std::size_t i) { return in_train[i] == never; });
    items.insert(items.end(), others.begin(), others.end());
    return items;
  }

  std::vector<std::int64_t> in_train;
  std::vector<std::int64_t> anywhere;

 private:
  template <class Wanted>
  static std::vector<std::int32_t> sorted_by(const std::vector<std::int64_t>& place, Wanted wanted) {
    std::vector<std::int32_t> items;
    for (std::size_t i = 0; i < place.size(); ++i) {
      if (place[i] != never && wanted(i)) items.push_back(static_cast<std::int32_t>(i));
    }
    std::sort(items.begin(), items.end(), [&](std::int32_t a, std::int32_t b) {
      return place[static_cast<std::size_t>(a)] < place[static_cast<std::size_t>(b)];
    });
    return items;
  }
};

// Events of a part that are dropped, since no train user has the item.
class Unknown {
 public:
  explicit Unknown(std::int64_t items) : validation_(items), test_(items) {}
  // All of one user's go together.
  void add(Part part, std::int32_t item) {
    of(part).add(item);
    (part == Part::validation ? user_of_validation_ : user_of_test_) = true;
  }
  void end_user() {
    if (user_of_validation_) validation_.add_user();
    if (user_of_test_) test_.add_user();
    user_of_validation_ = user_of_test_ = false;
  }
  void tell(SplitWriter& to) const {
    to.set_unknown(Part::validation, validation_.step(""));
    to.set_unknown(Part::test, test_.step(""));
  }

 private:
  Tally& of(Part part) { return part == Part::validation ? validation_ : test_; }
  Tally validation_;
  Tally test_;
  bool user_of_validation_ = false;
  bool user_of_test_ = false;
};

class SpilledSplit {
 public:
  SpilledSplit(RawRatings& ratings, const SpilledFilter& filter, const PrepareOptions& options,
               SplitWriter& to, Progress& progress)
      : ratings_(&ratings),
        filter_(&filter),
        options_(&options),
        to_(&to),
        progress_(&progress),
        strong_(options.split == "liang2018" || options.split == "random"),
        given_(options.split == "given") {}

  Split run() {
    order_users();
    SpilledRows rows(*ratings_->spilled, split_.users, filter_->events_of, !strong_);
    store_rows(rows);
    rows.rewind();
    progress_->begin("writing", static_cast<std::int64_t>(split_.users.size()), "users");
    if (strong_) {
      write_strong(rows);
    } else if (ratings_->numbered_by_source) {
      write_numbered(rows);
    } else {
      write_weak(rows);
    }
    progress_->end();
    return std::move(split_);
  }

 private:
  bool holds(Part part) const { return filter_->users_of_part[static_cast<std::size_t>(part)].size() > 0; }

  void order_users() {
    if (given_)
      require_given_parts(holds(Part::train), holds(Part::validation) || holds(Part::test), *options_);
    if (ratings_->numbered_by_source) return number_users();
    std::vector<bool> present(filter_->events_of.size());
    for (std::size_t u = 0; u < present.size(); ++u) present[u] = filter_->events_of[u] > 0;
    const std::vector<std::int32_t> sorted = sorted_users(present, ratings_->user_ids);
    if (strong_) {
      draws_ = strong_draws(sorted, *options_);
      parts_ = strong_parts(static_cast<std::int64_t>(sorted.size()), *options_);
      split_.users = draws_.users;
    } else {
      split_.weak = true;
      split_.users = shuffled_users(sorted, options_->seed);
      parts_.train = {0, static_cast<std::int64_t>(sorted.size())};
    }
  }

  void number_users() {
    const auto range = [&](Part a, Part b) {
      const Range& x = filter_->users_of_part[static_cast<std::size_t>(a)];
      const Range& y = filter_->users_of_part[static_cast<std::size_t>(b)];
      if (x.size() == 0) return y;
      if (y.size() == 0) return x;
      return Range{std::min(x.begin, y.begin), std::max(x.end, y.end)};
    };
    const StrongParts numbers =
        require_apart({range(Part::train, Part::train), range(Part::validation_fold_in, Part::validation),
                       range(Part::test_fold_in, Part::test)});
    for (const Range& users : {numbers.train, numbers.validation, numbers.test}) {
      for (std::int64_t u = users.begin; u < users.end; ++u)
        split_.users.push_back(static_cast<std::int32_t>(u));
    }
    parts_.train = {0, numbers.train.size()};
    parts_.validation = {parts_.train.end, parts_.train.end + numbers.validation.size()};
    parts_.test = {parts_.validation.end, parts_.validation.end + numbers.test.size()};
  }

  // Rows instead of events, the columns' numbers, and the numbers of rows.
  void store_rows(SpilledRows& rows) {
    std::vector<std::int32_t> position_of(filter_->events_of.size(), nowhere);
    for (std::size_t p = 0; p < split_.users.size(); ++p) {
      position_of[static_cast<std::size_t>(split_.users[p])] = static_cast<std::int32_t>(p);
    }
    const std::int64_t items = ratings_->item_ids.size();
    FirstPlaces first(items);
    const EventBuckets& buckets = *ratings_->spilled;
    progress_->begin("splitting", buckets.count(), "buckets");
    for_each_bucket(buckets, [&](std::int64_t b, EventBuckets::Bucket& bucket) {
      struct User {
        std::int32_t position;
        std::span<SpilledEvent> events;
        std::span<double> times;
      };
      std::vector<User> users;
      for_each_user(bucket, [&](std::span<SpilledEvent> events, std::span<double> times) {
        const auto user = static_cast<std::size_t>(events.front().user);
        if (filter_->events_of[user] > 0) users.push_back({position_of[user], events, times});
      });
      std::sort(users.begin(), users.end(),
                [](const User& one, const User& other) { return one.position < other.position; });
      std::vector<std::byte> bytes;
      for (const User& user : users) store_row(user.position, user.events, user.times, first, bytes);
      rows.store(b, bytes);
      progress_->update(b + 1);
    });
    progress_->end();

    if (ratings_->numbered_by_source) {
      split_.items.resize(static_cast<std::size_t>(items));
      std::iota(split_.items.begin(), split_.items.end(), 0);
    } else {
      split_.items = first.numbered(given_);
    }
    column_of_.assign(static_cast<std::size_t>(items), nowhere);
    for (std::size_t c = 0; c < split_.items.size(); ++c) {
      column_of_[static_cast<std::size_t>(split_.items[c])] = static_cast<std::int32_t>(c);
    }
    split_.train_rows = parts_.train.size();
    split_.validation_rows = split_.weak ? (validates_ ? split_.train_rows : 0) : parts_.validation.size();
    split_.test_rows = split_.weak ? (tests_ ? split_.train_rows : 0) : parts_.test.size();
    to_->start(split_);
  }

  void store_row(std::int64_t position, std::span<SpilledEvent> events, std::span<double> times,
                 FirstPlaces& first, std::vector<std::byte>& bytes) {
    row_.items.clear();
    row_.parts.clear();
    times_.clear();
    std::size_t kept = 0;
    for (std::size_t e = 0; e < events.size(); ++e) {
      if (!filter_->keeps(events[e])) continue;
      if (!times.empty()) times_.push_back(times[e]);
      events[kept++] = events[e];
    }
    events = events.first(kept);
    for (const SpilledEvent& event : events) row_.items.push_back(event.item);
    if (!strong_) {
      row_.parts.resize(kept);
      if (given_) {
        for (std::size_t e = 0; e < kept; ++e) row_.parts[e] = events[e].part();
      } else {
        weak_draw_.draw(position, times_, row_.parts);
      }
    }
    for (std::size_t e = 0; e < kept; ++e) {
      first.add(events[e], strong_ ? position < parts_.train.end : row_.parts[e] == Part::train);
      validates_ = validates_ || (!strong_ && row_.parts[e] == Part::validation);
      tests_ = tests_ || (!strong_ && row_.parts[e] == Part::test);
    }
    SpilledRows::add_row(bytes, row_.items, row_.parts);
  }

  std::int32_t column(std::int32_t item) const { return column_of_[static_cast<std::size_t>(item)]; }

  // Which of the known events of held-out users are targets: a bit for each, one part behind the other.
  struct Targets {
    std::vector<std::int64_t> first{0};  // of each held-out position, and of none
    std::vector<bool> is_target;
  };

  // Reads the held-out rows for the first time: `rows` stand before them.
  Targets draw_targets(SpilledRows rows) {
    Targets targets;
    Unknown unknown(ratings_->item_ids.size());
    for (std::int64_t p = parts_.validation.begin; p < parts_.test.end; ++p) {
      rows.next(row_);
      std::int64_t known = 0;
      for (const std::int32_t item : row_.items) {
        if (column(item) != nowhere) {
          ++known;
        } else {
          unknown.add(p < parts_.validation.end ? Part::validation : Part::test, item);
        }
      }
      unknown.end_user();
      targets.first.push_back(targets.first.back() + known);
    }
    unknown.tell(*to_);
    targets.is_target.resize(static_cast<std::size_t>(targets.first.back()), false);
    for (const Range& part : {parts_.validation, parts_.test}) {
      draws_.start_part();
      for (const std::int64_t position : draws_.visits) {
        if (position < part.begin || position >= part.end) continue;
        const auto p = static_cast<std::size_t>(position - parts_.validation.begin);
        const std::int64_t n = targets.first[p + 1] - targets.first[p];
        for (const std::int32_t index : draws_.pick(position, static_cast<std::int32_t>(n))) {
          targets.is_target[static_cast<std::size_t>(targets.first[p] + index)] = true;
        }
      }
    }
    return targets;
  }

  void write_strong(SpilledRows& rows) {
    for (std::int64_t p = 0; p < parts_.train.end; ++p) {
      rows.next(row_);
      for (std::int32_t& item : row_.items) item = column(item);
      to_->train(row_.items);
      progress_->update(p + 1);
    }
    const Targets targets = draw_targets(rows.again());
    for (std::int64_t p = parts_.validation.begin; p < parts_.test.end; ++p) {
      rows.next(row_);
      clear_columns();
      auto event = static_cast<std::size_t>(targets.first[static_cast<std::size_t>(p - parts_.train.end)]);
      for (const std::int32_t item : row_.items) {
        if (column(item) == nowhere) continue;
        (targets.is_target[event++] ? validation_ : train_).push_back(column(item));
      }
      to_->held_out(p < parts_.validation.end ? Part::validation : Part::test, train_, validation_);
      progress_->update(p + 1);
    }
  }

  void write_weak(SpilledRows& rows) {
    Unknown unknown(ratings_->item_ids.size());
    for (std::int64_t p = 0; p < parts_.train.end; ++p) {
      rows.next(row_);
      clear_columns();
      for (std::size_t e = 0; e < row_.items.size(); ++e) {
        const Part part = row_.parts[e];
        if (column(row_.items[e]) == nowhere) {
          unknown.add(part == Part::validation ? Part::validation : Part::test, row_.items[e]);
        } else if (part == Part::train) {
          train_.push_back(column(row_.items[e]));
        } else if (part == Part::validation) {
          validation_.push_back(column(row_.items[e]));
        } else if (part == Part::test) {
          test_.push_back(column(row_.items[e]));
        }
      }
      unknown.end_user();
      to_->train(train_);
      if (validates_) to_->held_out(Part::validation, train_, validation_);
      if (tests_) to_->held_out(Part::test, train_, test_);
      progress_->update(p + 1);
    }
    unknown.tell(*to_);
  }

  // As the source has numbered users and items: nothing is unknown.
  void write_numbered(SpilledRows& rows) {
    for (std::int64_t p = 0; p < parts_.test.end; ++p) {
      rows.next(row_);
      clear_columns();
      for (std::size_t e = 0; e < row_.items.size(); ++e) {
        const bool target = row_.parts[e] == Part::validation || row_.parts[e] == Part::test;
        (target ? validation_ : train_).push_back(row_.items[e]);
      }
      if (p < parts_.train.end) {
        to_->train(train_);
      } else {
        to_->held_out(p < parts_.validation.end ? Part::validation : Part::test, train_, validation_);
      }
      progress_->update(p + 1);
    }
  }

  void clear_columns() {
    train_.clear();
    validation_.clear();
    test_.clear();
  }

  RawRatings* ratings_;
  const SpilledFilter* filter_;
  const PrepareOptions* options_;
  SplitWriter* to_;
  Progress* progress_;
  bool strong_;
  bool given_;
  bool validates_ = false;  // weak: there is such a part
  bool tests_ = false;
  SplitDraws draws_;
  WeakDraw weak_draw_{*options_};
  StrongParts parts_;  // by position; weak: train is all
  Split split_;
  std::vector<std::int32_t> column_of_;
  SpilledRows::Row row_;
  std::vector<double> times_;
  std::vector<std::int32_t> train_;
  std::vector<std::int32_t> validation_;
  std::vector<std::int32_t> test_;
};

}  // namespace

Split split_spilled(RawRatings& ratings, const SpilledFilter& filter, const PrepareOptions& options,
                    SplitWriter& to, Progress& progress) {
  return SpilledSplit(ratings, filter, options, to, progress).run();
}

}  // namespace vaecf::data
