#include "data/prepare/split.hpp"

#include <vaecf/base/error.hpp>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

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
  const std::int64_t held_out = options.validation_users + options.test_users;
  if (held_out >= users) {
    throw InputError(format(
        "{} validation and {} test users leave none of the {} users to train on; decrease data.prepare.validation_users and data.prepare.test_users, or relax the filters",
        options.validation_users, options.test_users, users));
  }
  return consecutive(users - held_out, options.validation_users, options.test_users);
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
  Splitter(RawRatings& ratings, Filter& filter, const PrepareOptions& options, SplitWriter& to,
           PrepareReport& report, Progress& progress)
      : ratings_(&ratings),
        filter_(&filter),
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
    to_->start(split_.weak, ratings_->item_ids.size());
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
    EventStore rows = ratings_->events.ordered(static_cast<std::int64_t>(split_.users.size()));
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
      if (split_.weak && !given_) draw_weak_split(row, events, *options_);
      for (Event& event : events) {
        first.add(event, drawn_ ? row < parts_.train.end : event.part == SplitPart::train);
        validates_ = validates_ || event.part == SplitPart::validation;
        tests_ = tests_ || event.part == SplitPart::test;
        event.user = row;
        rows.add(event);
      }
    });

    if (ratings_->numbered_by_source) {
      split_.items.resize(items);
      std::iota(split_.items.begin(), split_.items.end(), 0);
    } else {
      split_.items = first.numbered(given_);
    }
    column_of_.assign(items, nowhere);
    for (std::size_t c = 0; c < split_.items.size(); ++c)
      column_of_[split_.items[c]] = static_cast<std::int32_t>(c);
    split_.train_rows = parts_.train.size();
    split_.validation_rows = split_.weak ? (validates_ ? split_.train_rows : 0) : parts_.validation.size();
    split_.test_rows = split_.weak ? (tests_ ? split_.train_rows : 0) : parts_.test.size();
    return rows;
  }

  std::int32_t column(const Event& event) const { return column_of_[event.item]; }

  // Samples the targets, which depend on each held-out user's number of events on train items.
  void draw(EventStore& rows) {
    std::vector<std::int64_t> first{0};
    const auto held_out = static_cast<std::int32_t>(parts_.validation.begin);
    if (stable_) return draw_stable(rows, held_out);
    rows.each_user({"drawing", held_out}, *progress_, [&](std::span<const Event> events) {
      first.push_back(first.back() + std::count_if(events.begin(), events.end(), [&](const Event& event) {
                        return column(event) != nowhere;
                      }));
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
        if (column(event) != nowhere) items.push_back(ratings_->item_ids.text(event.item));
      const auto user = split_.users[events.front().user];
      const std::vector<bool> targets = stable_targets(ratings_->user_ids.text(user), items, *options_);
      is_target_.insert(is_target_.end(), targets.begin(), targets.end());
    });
  }

  void write(EventStore& rows) {
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
    validation_.clear();
    test_.clear();
    for (const Event& event : events) {
      HeldOutRow& held_out = (split_.weak ? event.part == SplitPart::test : in_test) ? test_ : validation_;
      if (column(event) == nowhere) {
        (event.part == SplitPart::test_fold_in ? held_out.unknown_fold_in : held_out.unknown)
            .push_back(event.item);
      } else if (is_target(event, train)) {
        held_out.targets.push_back(column(event));
      } else {
        fold_in_.push_back(column(event));
      }
    }
    if (train) to_->train(fold_in_);
    if (split_.weak ? validates_ : !train && !in_test)
      to_->held_out(SplitPart::validation, fold_in_, validation_);
    if (split_.weak ? tests_ : !train && in_test) to_->held_out(SplitPart::test, fold_in_, test_);
  }

  // Returns whether an event on a train item is a target. Must be called once per such event, in order.
  bool is_target(const Event& event, bool train) {
    if (!drawn_) return event.part == SplitPart::validation || event.part == SplitPart::test;
    return !train && is_target_[next_target_++];
  }

  RawRatings* ratings_;
  Filter* filter_;
  const PrepareOptions* options_;
  SplitWriter* to_;
  PrepareReport* report_;
  Progress* progress_;
  bool stable_;
  bool drawn_;  // held-out users and their targets are sampled, or chosen by hashes
  bool given_;
  bool validates_ = false;  // there are validation events
  bool tests_ = false;      // there are test events
  StrongOrder order_;
  std::optional<TimeSplit> time_;
  StrongParts parts_;  // row ranges; weak: all rows are train
  Split split_;
  std::vector<std::int32_t> column_of_;
  std::vector<bool> is_target_;  // of the events of held-out users on train items, if drawn_
  std::size_t next_target_ = 0;
  std::vector<std::int32_t> fold_in_;  // columns of the row being written
  HeldOutRow validation_;
  HeldOutRow test_;
};

}  // namespace

Split make_split(RawRatings& ratings, Filter& filter, const PrepareOptions& options, SplitWriter& to,
                 PrepareReport& report, Progress& progress) {
  return Splitter(ratings, filter, options, to, report, progress).run();
}

void SplitWriter::start(bool weak, std::int64_t items) {
  weak_ = weak;
  train_ = SplitCounter(items);
  const SplitCounter none(items);
  validation_ = {"validation", 0, none, none, none, none, 0, 0};
  test_ = {"test", 0, none, none, none, none, 0, 0};
}

void SplitWriter::train(std::span<std::int32_t> columns) {
  std::sort(columns.begin(), columns.end());
  train_.add_row(columns);
  writer_->append_row("train", columns);
}

void SplitWriter::held_out(SplitPart which, std::span<std::int32_t> fold_in, HeldOutRow& row) {
  HeldOutCount& part = held_out_of(which);
  std::vector<std::int32_t>& targets = row.targets;
  std::sort(fold_in.begin(), fold_in.end());
  std::sort(targets.begin(), targets.end());
  for (const std::int32_t target : targets)
    part.seen_targets += std::binary_search(fold_in.begin(), fold_in.end(), target) ? 1 : 0;
  ++part.rows;
  part.without_target += targets.empty() ? 1 : 0;
  part.targets.add_row(targets);
  part.unknown.add_row(row.unknown);
  part.unknown_fold_in.add_row(row.unknown_fold_in);
  writer_->append_row(part.name + "/held_out", targets);
  if (weak_) return;
  part.fold_in.add_row(fold_in);
  writer_->append_row(part.name + "/fold_in", fold_in);
}

std::int64_t SplitWriter::interactions() const {
  std::int64_t sum = train_.events();
  for (const HeldOutCount* part : {&validation_, &test_})
    sum += part->fold_in.events() + part->targets.events();
  return sum;
}

void SplitWriter::report(PrepareReport& report, bool given, Log& log) const {
  report.stages.push_back(train_.stage("train"));
  for (const HeldOutCount* part : {&validation_, &test_})
    if (!weak_ || part->rows > 0) report_part(*part, given, report, log);
}

void SplitWriter::report_part(const HeldOutCount& part, bool given, PrepareReport& report, Log& log) const {
  report.stages.push_back(part.unknown.stage(part.name + ": dropped, no train user has the item"));
  if (part.unknown_fold_in.events() > 0)
    report.stages.push_back(
        part.unknown_fold_in.stage(part.name + ": fold-in dropped, no train user has the item"));
  if (!weak_) report.stages.push_back(part.fold_in.stage(part.name + ": fold-in"));
  report.stages.push_back(part.targets.stage(part.name + ": targets"));
  report.stages.push_back({part.name + ": users without a target", 0, part.without_target, 0});
  if (part.without_target > 0) {
    log.warn("{} of {} {} users have no target, since they have too few events{}; metrics exclude them",
             part.without_target, part.rows, part.name,
             part.unknown.events() > 0 ? ", or no train user has the item" : "");
  }
  // Targets of a given split may be among the fold-in items.
  if (given && part.seen_targets > 0) {
    log.warn("{} {} targets are also fold-in items of the same user; they are kept and count as misses",
             part.seen_targets, part.name);
  }
}

}  // namespace vaecf::data
