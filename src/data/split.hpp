#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/data/prepare.hpp>

#include <cstdint>
#include <functional>
#include <vector>

#include "data/events.hpp"

namespace vaecf::data {

inline constexpr std::int32_t nowhere = -1;  ///< position or column of what has none

/// Held-out users in the order of their positions. Columns of a row stand in file order.
struct HeldOutPart {
  Csr fold_in;
  Csr targets;
  Events unknown;  ///< dropped events on items that no train user has
  std::int64_t without_target = 0;
};

/// Strong generalisation: users cut into train, validation and test by position, each user in one only.
/// Weak: all users are in train, and in the same order in validation and test, where there are such parts.
/// Columns of all matrices stand in file order, as the paper's files have them.
struct Split {
  bool weak = false;  ///< fold-in is /train, and not repeated in the parts
  /// Position -> user of the events. Strong: train, then validation, then test.
  std::vector<std::int32_t> users;
  std::vector<std::int32_t> items;  ///< column -> item of the events
  std::int64_t train_rows = 0;
  std::int64_t validation_rows = 0;
  std::int64_t test_rows = 0;
  // The rows, unless the events are on disk: then they go straight into the dataset.
  Csr train;
  HeldOutPart validation;
  HeldOutPart test;
};

/// What is drawn at random in a split.
struct SplitDraws {
  std::vector<std::int32_t> users;  ///< as in Split
  /// Positions of held-out users in the order in which `pick` is asked about them.
  std::vector<std::int64_t> visits;
  /// Called before the users of validation, and before those of test.
  std::function<void()> start_part;
  /// Which of the n events of the user at `position` are targets: indices from 0, file order.
  std::function<std::vector<std::int32_t>(std::int64_t position, std::int32_t n)> pick;
};

/// Users of `events` by ascending id, and those for whom `present` holds.
std::vector<std::int32_t> sorted_users(const Events& events, const io::IdList& ids);
std::vector<std::int32_t> sorted_users(const std::vector<bool>& present, const io::IdList& ids);

/// The paper's split (Liang et al., WWW 2018), bit for bit that of its notebook: users sorted by id and
/// permuted by numpy's generator; items numbered by first appearance among train users' events; per held-out
/// user with at least 5 events floor(fraction * n) targets, the generator seeded again for each part.
/// `sorted`: users by ascending id.
SplitDraws liang2018_draws(const std::vector<std::int32_t>& sorted, const PrepareOptions& options);

/// Our own: users sorted by id and shuffled by Philox; per held-out user with at least 2 events
/// floor(fraction * n) targets, but at least one. Each user's draw stands for itself.
SplitDraws random_draws(const std::vector<std::int32_t>& sorted, const PrepareOptions& options);

/// The one of both that `options` name.
SplitDraws strong_draws(const std::vector<std::int32_t>& sorted, const PrepareOptions& options);

/// Users sorted by id and shuffled by Philox: the order of rows of all splits of our own.
std::vector<std::int32_t> shuffled_users(std::vector<std::int32_t> sorted, std::uint32_t seed);

/// Positions of the users of a strong split.
struct StrongParts {
  Range train;
  Range validation;
  Range test;
};

/// InputError where validation and test leave no user to train on.
StrongParts strong_parts(std::int64_t users, const PrepareOptions& options);

/// Draws what is held out of one user's events, in a weak split that is none of the source's own.
class WeakDraw {
 public:
  explicit WeakDraw(const PrepareOptions& options) : options_(&options) {}
  /// Fills `parts`, one for each event of the user at `position`, in file order. `times`: of each, or empty.
  void draw(std::int64_t position, std::span<const double> times, std::span<Part> parts);

 private:
  const PrepareOptions* options_;
  std::vector<std::int32_t> order_;
};

/// What is held out of each user's n events: leave_one_out 1 for the test if n >= 2, and 1 for validation if
/// n >= 3; ratio max(1, floor(fraction * n)) each, under the same conditions, but one event at least stays.
/// Drawn by Philox, user by user, or the last in time, equal ones by file order. Per event.
std::vector<Part> weak_parts(const Events& events, const std::vector<std::int32_t>& users,
                             const PrepareOptions& options);

/// Rows of all users by part. Items are those of train, numbered by first appearance, and held-out events on
/// others are dropped; with `whole_catalogue` items of the other parts follow instead. A part without any
/// event has no rows.
Split weak_split(const Events& events, const std::vector<std::int32_t>& users, const std::vector<Part>& parts,
                 bool whole_catalogue);

/// The split of a source that has one: with fold-in files (pro_sg) strong, rows and columns in its own order;
/// otherwise weak. InputError where it has no train part, or nothing is held out.
Split given_split(const RawRatings& ratings, const PrepareOptions& options);

/// InputError where a source that is split already has no train part, or holds nothing out.
void require_given_parts(bool train, bool held_out, const PrepareOptions& options);

/// The numbers of the users of a source that has numbered them itself, from the first to the last of each
/// part. InputError where they overlap.
StrongParts require_apart(const StrongParts& users);

/// Makes the matrices. InputError where validation and test leave no user to train on.
Split split_events(const Events& events, const SplitDraws& draws, const PrepareOptions& options);

/// The split that `options` name; InputError for a name that is none.
Split make_split(const RawRatings& ratings, const PrepareOptions& options);

}  // namespace vaecf::data
