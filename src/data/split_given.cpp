#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <algorithm>
#include <numeric>

#include "data/split.hpp"

namespace vaecf::data {
namespace {

bool holds(const Events& events, Part part) {
  return std::find(events.part.begin(), events.part.end(), part) != events.part.end();
}

// Rows of users [users.begin, users.end) as the source numbers them.
Csr rows_of(const Events& events, Part part, Range users) {
  Csr rows;
  std::vector<std::int64_t> next(static_cast<std::size_t>(users.size()) + 1, 0);
  const auto row_of = [&](std::size_t e) { return static_cast<std::size_t>(events.user[e] - users.begin); };
  const auto count = static_cast<std::size_t>(events.size());
  for (std::size_t e = 0; e < count; ++e) {
    if (events.part[e] == part) ++next[row_of(e) + 1];
  }
  for (std::size_t r = 1; r < next.size(); ++r) next[r] += next[r - 1];
  rows.offsets = next;
  rows.columns.resize(static_cast<std::size_t>(next.back()));
  for (std::size_t e = 0; e < count; ++e) {
    if (events.part[e] != part) continue;
    rows.columns[static_cast<std::size_t>(next[row_of(e)]++)] = events.item[e];
  }
  return rows;
}

// The users from the first to the last of the given parts.
Range users_of(const Events& events, std::initializer_list<Part> parts) {
  Range users{0, 0};
  for (std::size_t e = 0; e < events.user.size(); ++e) {
    if (std::find(parts.begin(), parts.end(), events.part[e]) == parts.end()) continue;
    const std::int64_t user = events.user[e];
    if (users.size() == 0) users = {user, user + 1};
    users = {std::min(users.begin, user), std::max(users.end, user + 1)};
  }
  return users;
}

void require_apart_two(Range a, Range b, const char* what) {
  if (a.size() == 0 || b.size() == 0 || a.end <= b.begin || b.end <= a.begin) return;
  throw InputError(
      format("uids {} to {} and {} to {} of {} overlap: a held-out user must be in one part only, "
             "with uids in one stretch",
             a.begin, a.end - 1, b.begin, b.end - 1, what));
}

// As pro_sg has it: uids of each part stand together, a row for each from the first to the last.
Split split_by_number(const RawRatings& ratings) {
  const Events& events = ratings.events;
  const auto [train, validation, test] = require_apart(
      {users_of(events, {Part::train}), users_of(events, {Part::validation_fold_in, Part::validation}),
       users_of(events, {Part::test_fold_in, Part::test})});
  Split split;
  split.items.resize(static_cast<std::size_t>(ratings.item_ids.size()));
  std::iota(split.items.begin(), split.items.end(), 0);
  for (const Range& users : {train, validation, test}) {
    for (std::int64_t u = users.begin; u < users.end; ++u)
      split.users.push_back(static_cast<std::int32_t>(u));
  }
  split.train = rows_of(events, Part::train, train);
  const auto fill = [&](HeldOutPart& part, Part fold_in, Part targets, Range users) {
    if (users.size() == 0) return;
    part.fold_in = rows_of(events, fold_in, users);
    part.targets = rows_of(events, targets, users);
    for (std::int64_t row = 0; row < part.targets.rows(); ++row) {
      part.without_target += part.targets.view().row_size(row) == 0 ? 1 : 0;
    }
  };
  fill(split.validation, Part::validation_fold_in, Part::validation, validation);
  fill(split.test, Part::test_fold_in, Part::test, test);
  return split;
}

}  // namespace

void require_given_parts(bool train, bool held_out, const PrepareOptions& options) {
  if (!train) throw InputError("the train part of the source holds no event to train on");
  const bool none_wanted = options.validation_users == 0 && options.test_users == 0;
  if (!held_out && !none_wanted) {
    throw InputError(
        "data.prepare.split is given, but there is neither a validation nor a test file beside the "
        "train file: name them in data.source.validation_path and data.source.test_path, or use "
        "another split");
  }
}

StrongParts require_apart(const StrongParts& users) {
  require_apart_two(users.train, users.validation, "train and validation");
  require_apart_two(users.train, users.test, "train and test");
  require_apart_two(users.validation, users.test, "validation and test");
  return users;
}

Split given_split(const RawRatings& ratings, const PrepareOptions& options) {
  const Events& events = ratings.events;
  require_given_parts(holds(events, Part::train),
                      holds(events, Part::validation) || holds(events, Part::test), options);
  if (ratings.numbered_by_source) return split_by_number(ratings);
  const auto users = shuffled_users(sorted_users(events, ratings.user_ids), options.seed);
  return weak_split(events, users, events.part, true);
}

}  // namespace vaecf::data
