#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/data/prepare_options.hpp>
#include <vaecf/io/id_list.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/prepare/event_store.hpp"

namespace vaecf::data {

/// Returns the users with events, by ascending id. `events_of`: number of events per user.
std::vector<std::int32_t> sorted_users(const std::vector<std::int32_t>& events_of, const io::IdList& ids);

/// Returns a Philox shuffle of users sorted by id: the row order of all splits except `liang2018`.
std::vector<std::int32_t> shuffled_users(std::vector<std::int32_t> sorted, std::uint32_t seed);

/// Row order of a strong split.
struct StrongOrder {
  std::vector<std::int32_t> users;       ///< user of each row
  std::vector<std::int64_t> pick_order;  ///< rows in the order in which targets are sampled
};

/// Returns the order of the users `sorted`, which are sorted by id: permuted with NumPy's generator for
/// `liang2018`, with Philox for `random`.
StrongOrder strong_order(const std::vector<std::int32_t>& sorted, const PrepareOptions& options);

/// Samples the target events of the users in the rows `part`. The n events of the k-th row of the part are
/// elements [first[k], first[k + 1]) of `is_target`, in file order. `liang2018` samples floor(fraction * n)
/// of at least 5 events with NumPy's generator, seeded for each part, bit for bit like the notebook. `random`
/// samples max(1, floor(fraction * n)) of at least 2 events, and leaves at least one; the result of a user
/// depends only on the row.
void draw_targets(const StrongOrder& order, Range part, const PrepareOptions& options,
                  std::span<const std::int64_t> first, std::vector<bool>& is_target);

/// The parts for which a user is held out in the splits `leave_one_out` and `ratio`.
struct WeakParts {
  bool validation = false;
  bool test = false;
};

/// Sets the part of each event of the user in row `row` in the splits `leave_one_out` and `ratio`; events are
/// in file order. Held-out events are sampled with Philox, or are the latest ones, with ties in file order. A
/// user must have an event more than parts. Each part gets 1 event (`leave_one_out`) or max(1, floor(fraction
/// * n)) of n events (`ratio`); at least one event remains in train.
void draw_weak_split(std::int64_t row, std::span<Event> events, WeakParts parts,
                     const PrepareOptions& options);

/// The users of the split `stable`: train, then validation, then test.
struct StableOrder {
  std::vector<std::int32_t> users;
  std::array<std::int64_t, 3> counts{};  ///< number of users of each part
};

/// Divides `users`, indices of `ids`, by h = XXH64(id as text, seed) / 2^64: below `test_fraction` a test
/// user, below the sum of both fractions a validation user, else a train user. So the part of a user depends
/// on nothing but the id, the seed and the fractions. Users of a part keep their order. Throws InputError if
/// no user is left to train on.
StableOrder stable_order(std::span<const std::int32_t> users, const io::IdList& ids,
                         const PrepareOptions& options);

/// Returns which of the n items of a held-out user are targets: the max(1, floor(held_out_fraction n)) with
/// the smallest XXH64(user id, zero byte, item id; seed) if n >= 2, else none. `items` are ids as text.
std::vector<bool> stable_targets(const std::string& user, std::span<const std::string> items,
                                 const PrepareOptions& options);

/// Draws floor(`options.new_items` n) of the n items `items` with Philox. The order of `items` has no
/// influence.
std::vector<std::int32_t> draw_new_items(std::span<const std::int32_t> items, const io::IdList& ids,
                                         const PrepareOptions& options);

/// Orders `items` by XXH64 of their ids as text (seed 0). So the position of a new item is not related to
/// its users, unlike its position in the source.
void sort_new_items(std::span<std::int32_t> items, const io::IdList& ids);

}  // namespace vaecf::data
