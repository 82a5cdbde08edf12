#include "data/prepare/split.hpp"

#include <vaecf/base/error.hpp>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "data/prepare/filter.hpp"
#include "data/prepare/held_out_rows.hpp"
#include "data/prepare/split_draws.hpp"
#include "data/prepare/split_writer.hpp"
#include "data/prepare/time_split.hpp"

namespace vaecf::data {
namespace {

constexpr std::int32_t nowhere = -1;  // row or column of users or items without one

struct StrongParts {
  Range train;
  Range validation;
  Range test;
};

StrongParts consecutive(std::int64_t train, std::int64_t validation, std::int64_t test) {
  return {{0, train}, {train, train + validation}, {train + validation, train + validation + test}};
}

StrongParts strong_parts(std::int64_t users, const PrepareOptions& options) {
  const auto count = [&](std::int64_t wanted) {
    return wanted == PrepareOptions::automatic ? std::clamp<std::int64_t>(users / 10, 1, 10000) : wanted;
  };
  const std::int64_t validation = count(options.validation_users);
  const std::int64_t test = count(options.test_users);
  if (validation + test >= users) {
    throw InputError(format(
        "{} validation and {} test users leave none of the {} users to train on; decrease data.prepare.validation_users and data.prepare.test_users, or relax the filters",
        validation, test, users));
  }
  return consecutive(users - validation - test, validation, test);
}

void require_given_parts(const Filter& filter, const PrepareOptions& options) {
  const auto holds = [&](SplitPart part) { return filter.users_of(part).size() > 0; };
  if (!holds(SplitPart::train)) throw InputError("the train part of the source contains no events");
  const bool none_wanted = options.validation_users == 0 && options.test_users == 0;
  if (!holds(SplitPart::validation) && !holds(SplitPart::test) && !none_wanted) {
    throw InputError(
        "data.prepare.split is given, but there is neither a validation nor a test file next to the train file; set data.source.validation_path and data.source.test_path, or use another split");
  }
}

Range covering(Range a, Range b) {
  if (a.size() == 0) return b;
  if (b.size() == 0) return a;
  return {std::min(a.begin, b.begin), std::max(a.end, b.end)};
}

void require_apart(Range a, Range b, const char* what) {
  if (a.size() == 0 || b.size() == 0 || a.end <= b.begin || b.end <= a.begin) return;
  throw InputError(format(
      "uids {} to {} and {} to {} of {} overlap; each user must be in one part only, and the uids of a part must be contiguous",
      a.begin, a.end - 1, b.begin, b.end - 1, what));
}

// First position of each item in the source, in events to train on and in others.
class FirstAppearances {
 public:
  explicit FirstAppearances(std::int64_t items) : first_(items, {never, never}) {}

  void add(const Event& event, bool train) {
    auto& [in_train, elsewhere] = first_[event.item];
    std::int64_t& first = train ? in_train : elsewhere;
    first = std::min<std::int64_t>(first, event.index);
  }
  // Returns the items in that order, those of train first. The others are included only if `all`.
  std::vector<std::int32_t> numbered(bool all) const {
    std::vector<std::int32_t> items;
    for (std::size_t i = 0; i < first_.size(); ++i) {
      const auto& [in_train, elsewhere] = first_[i];
      if (in_train != never || (all && elsewhere != never)) items.push_back(static_cast<std::int32_t>(i));
    }
    std::ranges::sort(items, {}, [&](std::int32_t item) { return first_[item]; });
    return items;
  }

 private:
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
  std::vector<std::pair<std::int64_t, std::int64_t>> first_;
};

class Splitter {
 public:
  Splitter(RawRatings& ratings, Filter& filter, const ItemTable& table, const PrepareOptions& options,
           SplitWriter& to, PrepareReport& report, Progress& progress)
      : ratings_(&ratings),
        filter_(&filter),
        table_(&table),
        options_(&options),
        to_(&to),
        report_(&report),
        progress_(&progress),
        stable_(options.split == SplitMethod::stable),
        drawn_(options.split == SplitMethod::liang2018 || options.split == SplitMethod::random || stable_),
        given_(options.split == SplitMethod::given) {}

  Split run() {
    order_users();
    EventStore rows = collect_rows();
    to_->start(split_.weak, ratings_->item_ids.size(), split_.train_items);
    if (drawn_) draw(rows);
    write(rows);
    return std::move(split_);
  }

 private:
  void order_users() {
    if (given_) require_given_parts(*filter_, *options_);
    if (ratings_->numbered_by_source) return keep_numbers();
    if (options_->split == SplitMethod::time) {
      time_.emplace(*ratings_, *filter_, *options_, *report_);
      filter_->cut_at(time_->cuts());
      split_.users = time_->users();
      parts_ = {time_->parts()[0], time_->parts()[1], time_->parts()[2]};
      return;
    }
    const auto sorted = sorted_users(filter_->events_of(), ratings_->user_ids);
    const std::int64_t users = std::ssize(sorted);
    if (stable_) {
      StableOrder order = stable_order(shuffled_users(sorted, options_->seed), ratings_->user_ids, *options_);
      parts_ = consecutive(order.counts[0], order.counts[1], order.counts[2]);
      split_.users = std::move(order.users);
    } else if (drawn_) {
      parts_ = strong_parts(users, *options_);
      order_ = strong_order(sorted, *options_);
      split_.users = order_.users;
    } else {
      parts_.train = {0, users};
      split_.weak = true;
      split_.users = shuffled_users(sorted, options_->seed);
      if (!given_) choose_held_out();
    }
  }

  // Chooses the users that the splits leave_one_out and ratio hold out, who keep at least one train event.
  void choose_held_out() {
    HeldOutRows test(options_->test_users, {}, options_->seed);
    HeldOutRows validation(options_->validation_users, {}, options_->seed);
    for (std::size_t row = 0; row < split_.users.size(); ++row) {
      const std::int32_t events = filter_->events_of()[split_.users[row]];
      tested_.push_back(events >= 2 && test.take(static_cast<std::int64_t>(row)));
      validated_.push_back(events >= (tested_.back() ? 3 : 2) &&
                           validation.take(static_cast<std::int64_t>(row)));
    }
  }

  // In pro_sg the uids of each part are contiguous; every uid from the first to the last gets a row.
  void keep_numbers() {
    const auto users_of = [&](SplitPart a, SplitPart b) {
      return covering(filter_->users_of(a), filter_->users_of(b));
    };
    const Range train = filter_->users_of(SplitPart::train);
    const Range validation = users_of(SplitPart::validation_fold_in, SplitPart::validation);
    const Range test = users_of(SplitPart::test_fold_in, SplitPart::test);
    require_apart(train, validation, "train and validation");
    require_apart(train, test, "train and test");
    require_apart(validation, test, "validation and test");
    for (const Range& users : {train, validation, test}) {
      for (std::int64_t u = users.begin; u < users.end; ++u)
        split_.users.push_back(static_cast<std::int32_t>(u));
    }
    parts_ = consecutive(train.size(), validation.size(), test.size());
  }

  // Regroups the events by row instead of user, and determines the items of the columns.
  EventStore collect_rows() {
    std::vector<std::int32_t> row_of(filter_->events_of().size(), nowhere);
    for (std::size_t r = 0; r < split_.users.size(); ++r)
      row_of[split_.users[r]] = static_cast<std::int32_t>(r);
    const std::int64_t items = ratings_->item_ids.size();
    EventStore rows =
        ratings_->events.ordered(static_cast<std::int64_t>(split_.users.size()),
                                 weighted() ? EventFields::rating_and_time : EventFields::basic);
    FirstAppearances first(items);
    filter_->take_users([&](std::span<Event> events) {
      if (time_) {
        for (const Event& event : events) {
          first.add(event, time_->is_train(event));
          time_->add(event, rows);
        }
        return;
      }
      const std::int32_t row = row_of[events.front().user];
      if (split_.weak && !given_)
        draw_weak_split(row, events, {.validation = validated_[row], .test = tested_[row]}, *options_);
      for (Event& event : events) {
        first.add(event, drawn_ ? row < parts_.train.end : event.part == SplitPart::train);
        validates_ = validates_ || event.part == SplitPart::validation;
        tests_ = tests_ || event.part == SplitPart::test;
        event.user = row;
        rows.add(event);
      }
    });

    number_items(first);
    split_.train_rows = parts_.train.size();
    split_.validation_rows = split_.weak ? (validates_ ? split_.train_rows : 0) : parts_.validation.size();
    split_.test_rows = split_.weak ? (tests_ ? split_.train_rows : 0) : parts_.test.size();
    return rows;
  }

  // Determines the items of the columns: those of train, then the new ones.
  void number_items(const FirstAppearances& first) {
    const std::int64_t all = ratings_->item_ids.size();
    std::vector<std::int32_t>& items = split_.items;
    if (ratings_->numbered_by_source) {
      items.resize(table_->source_items);
      std::iota(items.begin(), items.end(), 0);
    } else {
      items = first.numbered(given_ && table_->known.empty());
    }
    std::vector<bool> is_new = table_->known;
    if (!is_new.empty()) {
      if (given_)
        for (const std::int32_t item : first.numbered(true)) is_new[item] = true;
      std::vector<std::int32_t> drawn = items;
      std::erase_if(drawn, [&](std::int32_t item) { return !table_->known[item]; });
      drawn = draw_new_items(drawn, ratings_->item_ids, *options_);
      if (options_->new_items > 0) is_new.assign(is_new.size(), false);
      for (const std::int32_t item : items) is_new[item] = false;
      for (const std::int32_t item : drawn) is_new[item] = true;
      std::erase_if(items, [&](std::int32_t item) { return is_new[item]; });
    }
    split_.train_items = std::ssize(items);
    for (std::size_t item = 0; item < is_new.size(); ++item)
      if (is_new[item]) items.push_back(static_cast<std::int32_t>(item));
    sort_new_items(std::span(items).subspan(split_.train_items), ratings_->item_ids);
    column_of_.assign(all, nowhere);
    for (std::size_t c = 0; c < items.size(); ++c) column_of_[items[c]] = static_cast<std::int32_t>(c);
  }

  bool weighted() const { return options_->weights != WeightRule::none; }
  std::int32_t column(const Event& event) const { return column_of_[event.item]; }
  bool is_train_item(const Event& event) const {
    return column(event) != nowhere && column(event) < split_.train_items;
  }

  // Samples the targets, which depend on each held-out user's number of events on train items.
  void draw(EventStore& rows) {
    std::vector<std::int64_t> first{0};
    const auto held_out = static_cast<std::int32_t>(parts_.validation.begin);
    if (stable_) return draw_stable(rows, held_out);
    rows.each_user({"drawing", held_out}, *progress_, [&](std::span<const Event> events) {
      first.push_back(first.back() + std::count_if(events.begin(), events.end(),
                                                   [&](const Event& event) { return is_train_item(event); }));
    });
    is_target_.resize(first.back(), false);
    draw_targets(order_, parts_.validation, *options_, first, is_target_);
    draw_targets(order_, parts_.test, *options_, std::span(first).subspan(parts_.validation.size()),
                 is_target_);
  }

  void draw_stable(EventStore& rows, std::int32_t held_out) {
    rows.each_user({"drawing", held_out}, *progress_, [&](std::span<const Event> events) {
      std::vector<std::string> items;
      for (const Event& event : events)
        if (is_train_item(event)) items.push_back(ratings_->item_ids.text(event.item));
      const auto user = split_.users[events.front().user];
      const std::vector<bool> targets = stable_targets(ratings_->user_ids.text(user), items, *options_);
      is_target_.insert(is_target_.end(), targets.begin(), targets.end());
    });
  }

  void write(EventStore& rows) {
    if (given_) {
      const Range none{};
      given_validation_.emplace(options_->validation_users, split_.weak ? none : parts_.validation,
                                options_->seed);
      given_test_.emplace(options_->test_users, split_.weak ? none : parts_.test, options_->seed);
    }
    std::int64_t next = 0;
    const auto write_to = [&](std::int64_t end) {  // writes rows without events
      while (next < end) write_row(next++, {});
    };
    rows.each_user({.label = "writing", .last = true}, *progress_, [&](std::span<const Event> events) {
      write_to(events.front().user);
      write_row(next++, events);
    });
    write_to(static_cast<std::int64_t>(split_.users.size()));
  }

  void write_row(std::int64_t row, std::span<const Event> events) {
    const bool train = split_.weak || row < parts_.train.end;
    const bool in_test = row >= parts_.test.begin;
    fold_in_.clear();
    removed_.clear();
    validation_.clear();
    test_.clear();
    for (const Event& event : events) {
      HeldOutRow& held_out = (split_.weak ? event.part == SplitPart::test : in_test) ? test_ : validation_;
      if (is_train_item(event)) {
        if (is_target(event, train)) {
          held_out.targets.push_back(column(event));
        } else {
          add_input(event);
        }
      } else if (event.part == SplitPart::validation_fold_in || event.part == SplitPart::test_fold_in) {
        held_out.unknown_fold_in.push_back(event.item);
      } else if (column(event) == nowhere) {
        held_out.unknown.push_back(event.item);
      } else if (is_held_out(event, train)) {
        held_out.targets.push_back(column(event));
      } else {
        removed_.push_back(event.item);
      }
    }
    if (given_ && !validation_.targets.empty() && !given_validation_->take(row)) validation_ = {};
    if (given_ && !test_.targets.empty() && !given_test_->take(row)) test_ = {};
    if (train) to_->train(fold_in_, removed_);
    if (split_.weak ? validates_ : !train && !in_test)
      to_->held_out(SplitPart::validation, fold_in_, validation_);
    if (split_.weak ? tests_ : !train && in_test) to_->held_out(SplitPart::test, fold_in_, test_);
  }

  // Only a sum with negative ratings has no weight here: it fell again after the pair had passed the filters.
  void add_input(const Event& event) {
    const double weight = weight_of(options_->weights, event.rating);
    if (is_weight(weight)) return fold_in_.push_back({column(event), weight});
    ratings_->issues.dropped("the sum of the ratings before a cut gives no positive weight", [&] {
      return format("user {}, item {}", excerpt(ratings_->user_ids.text(split_.users[event.user])),
                    excerpt(ratings_->item_ids.text(event.item)));
    });
  }

  // Returns whether an event belongs to the held-out part of its user, of which `drawn_` selects the targets.
  bool is_held_out(const Event& event, bool train) const {
    return drawn_ ? !train : event.part == SplitPart::validation || event.part == SplitPart::test;
  }
  // Returns whether an event on a train item is a target. Must be called once per such event, in order.
  bool is_target(const Event& event, bool train) {
    return is_held_out(event, train) && (!drawn_ || is_target_[next_target_++]);
  }

  RawRatings* ratings_;
  Filter* filter_;
  const ItemTable* table_;
  const PrepareOptions* options_;
  SplitWriter* to_;
  PrepareReport* report_;
  Progress* progress_;
  bool stable_;
  bool drawn_;  // held-out users and their targets are sampled, or chosen by hashes
  bool given_;
  bool validates_ = false;       // there are validation events
  bool tests_ = false;           // there are test events
  std::vector<bool> validated_;  // of each row, if leave_one_out and ratio hold out its user for validation
  std::vector<bool> tested_;
  std::optional<HeldOutRows> given_validation_;
  std::optional<HeldOutRows> given_test_;
  StrongOrder order_;
  std::optional<TimeSplit> time_;
  StrongParts parts_;  // row ranges; weak: all rows are train
  Split split_;
  std::vector<std::int32_t> column_of_;
  std::vector<bool> is_target_;  // of the events of held-out users on train items, if drawn_
  std::size_t next_target_ = 0;
  std::vector<Interaction> fold_in_;   // input of the row being written
  std::vector<std::int32_t> removed_;  // new items of its train events
  HeldOutRow validation_;
  HeldOutRow test_;
};

}  // namespace

Split make_split(RawRatings& ratings, Filter& filter, const ItemTable& table, const PrepareOptions& options,
                 SplitWriter& to, PrepareReport& report, Progress& progress) {
  return Splitter(ratings, filter, table, options, to, report, progress).run();
}

}  // namespace vaecf::data
