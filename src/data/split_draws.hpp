#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/data/prepare.hpp>

#include <cstdint>
#include <span>
#include <vector>

#include "data/event_store.hpp"

namespace vaecf::data {

/// Returns the users who have events, by ascending id. `events_of`: user -> events.
std::vector<std::int32_t> sorted_users(const std::vector<std::int32_t>& events_of, const io::IdList& ids);

/// Shuffles users, which are sorted by id, by Philox: the order of rows of all splits but `liang2018`.
std::vector<std::int32_t> shuffled_users(std::vector<std::int32_t> sorted, std::uint32_t seed);

/// The order of a strong split.
struct StrongOrder {
  std::vector<std::int32_t> users;   ///< row -> user
  std::vector<std::int64_t> visits;  ///< rows in the order in which their targets are drawn
};

/// `sorted`: users by ascending id. `liang2018` permutes them by numpy's generator, `random` by Philox.
StrongOrder strong_order(const std::vector<std::int32_t>& sorted, const PrepareOptions& options);

/// Draws which events of the users in rows `part` are targets. The n events of the k-th row of the part are
/// elements first[k] to first[k + 1] of `is_target`, in file order. `liang2018`, bit for bit as the notebook
/// does: floor(fraction * n) of at least 5, by numpy's generator, which is seeded for each part. `random`:
/// floor(fraction * n) of at least 2, but at least one; each user's draw depends on the row only.
void draw_targets(const StrongOrder& order, Range part, const PrepareOptions& options,
                  std::span<const std::int64_t> first, std::vector<bool>& is_target);

/// Draws what is held out of each user's n events in the splits `leave_one_out` and `ratio`: 1 for the test
/// if n >= 2 and 1 for validation if n >= 3; or max(1, floor(fraction * n)) each under the same conditions,
/// but one event at least stays.
class WeakDraw {
 public:
  explicit WeakDraw(const PrepareOptions& options) : options_(&options) {}
  /// Sets the part of each event of the user in row `row`; events are in file order. They are drawn by
  /// Philox, or they are the last in time, equal ones by file order.
  void draw(std::int64_t row, std::span<Event> events);

 private:
  std::int64_t held_out_count(std::int64_t events) const;

  const PrepareOptions* options_;
  std::vector<std::int32_t> order_;
};

}  // namespace vaecf::data
