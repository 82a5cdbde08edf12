#pragma once

#include <vaecf/data/prepare.hpp>

#include <string_view>

#include "data/events.hpp"

namespace vaecf::data {

/// Events, distinct users and distinct items, as one line of the report.
StepCount count_events(std::string step, const Events& events);

/// Keeps the first event of each (user, item) in file order, whatever its rating; the number dropped.
std::int64_t drop_duplicates(RawRatings& ratings);

/// InputError where a step leaves nothing.
void require_events(std::int64_t left, std::string_view step, std::string_view advice);

/// What is kept and how many, step by step: the first of each (user, item), then liked events, then items
/// with at least `min_item_users` users, then users with at least `min_user_items` items. Each once, not
/// iterated, as the paper does: some items may end below their limit. InputError where nothing remains.
void filter_events(RawRatings& ratings, const PrepareOptions& options, PrepareReport& report);

}  // namespace vaecf::data
