#include "data/split.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <algorithm>

namespace vaecf::data {
namespace {

// Where each user of the events stands; `nowhere` for users without events.
std::vector<std::int32_t> positions_of(const std::vector<std::int32_t>& users) {
  std::vector<std::int32_t> position;
  for (std::size_t p = 0; p < users.size(); ++p) {
    const auto user = static_cast<std::size_t>(users[p]);
    if (user >= position.size()) position.resize(user + 1, nowhere);
    position[user] = static_cast<std::int32_t>(p);
  }
  return position;
}

void append_row(Csr& csr, std::span<const std::int32_t> columns) {
  csr.columns.insert(csr.columns.end(), columns.begin(), columns.end());
  csr.offsets.push_back(static_cast<std::int64_t>(csr.columns.size()));
}

// Rows [rows.begin, rows.end) of `all`, each cut by the events that were picked as targets.
void cut_rows(const CsrView& all, Range rows, const std::vector<std::vector<std::int32_t>>& picks,
              HeldOutPart& part) {
  std::vector<bool> is_target;
  std::vector<std::int32_t> fold_in;
  std::vector<std::int32_t> targets;
  for (std::int64_t position = rows.begin; position < rows.end; ++position) {
    const auto events = all.row(position);
    is_target.assign(events.size(), false);
    for (const std::int32_t index : picks[static_cast<std::size_t>(position - rows.begin)]) {
      is_target[static_cast<std::size_t>(index)] = true;
    }
    fold_in.clear();
    targets.clear();
    for (std::size_t e = 0; e < events.size(); ++e) {
      (is_target[e] ? targets : fold_in).push_back(events[e]);
    }
    part.without_target += targets.empty() ? 1 : 0;
    append_row(part.fold_in, fold_in);
    append_row(part.targets, targets);
  }
}

// Events of all users by position, as columns in file order. Held-out events on items that no train user
// has are put aside.
Csr rows_by_position(const Events& events, const std::vector<std::int32_t>& position_of, Range train,
                     Range validation, Split& split) {
  std::vector<std::int32_t> column_of;
  std::vector<std::int64_t> begin(split.users.size() + 1, 0);
  const auto position = [&](std::size_t e) { return position_of[static_cast<std::size_t>(events.user[e])]; };
  const auto count = static_cast<std::size_t>(events.size());
  for (std::size_t e = 0; e < count; ++e) {
    const auto item = static_cast<std::size_t>(events.item[e]);
    if (item >= column_of.size()) column_of.resize(item + 1, nowhere);
    if (position(e) >= train.end || column_of[item] != nowhere) continue;
    column_of[item] = static_cast<std::int32_t>(split.items.size());
    split.items.push_back(events.item[e]);
  }
  for (std::size_t e = 0; e < count; ++e) {
    if (column_of[static_cast<std::size_t>(events.item[e])] != nowhere) {
      ++begin[static_cast<std::size_t>(position(e)) + 1];
    } else {
      Events& unknown = position(e) < validation.end ? split.validation.unknown : split.test.unknown;
      unknown.user.push_back(events.user[e]);
      unknown.item.push_back(events.item[e]);
    }
  }
  for (std::size_t p = 1; p < begin.size(); ++p) begin[p] += begin[p - 1];

  Csr rows;
  rows.offsets = begin;
  rows.columns.resize(static_cast<std::size_t>(begin.back()));
  for (std::size_t e = 0; e < count; ++e) {
    const std::int32_t column = column_of[static_cast<std::size_t>(events.item[e])];
    if (column == nowhere) continue;
    std::int64_t& place = begin[static_cast<std::size_t>(position(e))];
    rows.columns[static_cast<std::size_t>(place++)] = column;
  }
  return rows;
}

void draw_part(const CsrView& all, const SplitDraws& draws, Range rows, HeldOutPart& part) {
  std::vector<std::vector<std::int32_t>> picks(static_cast<std::size_t>(rows.size()));
  draws.start_part();
  for (const std::int64_t position : draws.visits) {
    if (position < rows.begin || position >= rows.end) continue;
    picks[static_cast<std::size_t>(position - rows.begin)] =
        draws.pick(position, static_cast<std::int32_t>(all.row_size(position)));
  }
  cut_rows(all, rows, picks, part);
}

}  // namespace

StrongParts strong_parts(std::int64_t users, const PrepareOptions& options) {
  const std::int64_t held_out = options.validation_users + options.test_users;
  if (held_out >= users) {
    throw InputError(
        format("{} validation and {} test users leave none of the {} users to train on: lower "
               "data.prepare.validation_users and data.prepare.test_users, or filter less",
               options.validation_users, options.test_users, users));
  }
  const std::int64_t train = users - held_out;
  return {{0, train}, {train, train + options.validation_users}, {train + options.validation_users, users}};
}

Split split_events(const Events& events, const SplitDraws& draws, const PrepareOptions& options) {
  const auto [train, validation, test] = strong_parts(static_cast<std::int64_t>(draws.users.size()), options);
  Split split;
  split.users = draws.users;
  Csr all = rows_by_position(events, positions_of(draws.users), train, validation, split);
  draw_part(all.view(), draws, validation, split.validation);
  draw_part(all.view(), draws, test, split.test);

  all.offsets.resize(static_cast<std::size_t>(train.end) + 1);
  all.columns.resize(static_cast<std::size_t>(all.offsets.back()));
  split.train = std::move(all);
  return split;
}

Split make_split(const RawRatings& ratings, const PrepareOptions& options) {
  const Events& events = ratings.events;
  const auto make = [&] {
    if (options.split == "given") return given_split(ratings, options);
    const std::vector<std::int32_t> sorted = sorted_users(events, ratings.user_ids);
    if (options.split == "liang2018" || options.split == "random") {
      return split_events(events, strong_draws(sorted, options), options);
    }
    const std::vector<std::int32_t> users = shuffled_users(sorted, options.seed);
    return weak_split(events, users, weak_parts(events, users, options), false);
  };
  Split split = make();
  split.train_rows = split.train.rows();
  split.validation_rows = split.validation.targets.rows();
  split.test_rows = split.test.targets.rows();
  return split;
}

}  // namespace vaecf::data
