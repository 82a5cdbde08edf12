#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/evaluate/evaluator.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/models/model.hpp>
#include <vaecf/models/popularity.hpp>
#include <vaecf/models/reasons.hpp>
#include <vaecf/run/run.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace vaecf::run {

struct RecommendOptions {
  int k = 10;              ///< number of items per user
  bool keep_seen = false;  ///< also recommend items that the user already has
  std::vector<std::uint8_t>
      allowed_items;    ///< (I) 0 for items that must not be recommended; empty: all are allowed
  int reasons = 0;      ///< number of the user's items named as reasons for each item; 0: none
  Csr categories = {};  ///< (I) numbers of the categories of each item; no rows: no limit
  int at_most = 0;      ///< maximum number of items of a category in a list
};

/// Recommends the top items of users with the model of a checkpoint, which may be trained on any device. No
/// dataset is needed. It works on one rank, independently of other ranks, or on a model-parallel group. All
/// ranks of a model-parallel group must call its functions in the same order, with the same users.
class Recommender {
 public:
  /// Number of users per forward pass. Batches start at the first user of a call. On the CPU, results depend
  /// on the users of a batch, but not on the number of threads.
  static constexpr std::int64_t batch_users = 256;

  /// The context must outlive this object. Throws InputError if k < 1, the model of `options` is not that of
  /// the checkpoint, or no item may be recommended.
  Recommender(const config::TrainingConfig& options, const Context& context,
              const io::CheckpointFile& checkpoint, RecommendOptions choice);
  ~Recommender();

  /// Returns the number of items per user: k, or the number of allowed items if that is less. Lists are
  /// shorter if categories are limited and too few items are left.
  std::int64_t list_length() const { return std::min<std::int64_t>(choice_.k, allowed_count_); }
  /// Returns the number of user features of the model; 0 if it has none.
  std::int64_t features() const { return model_->features(); }
  /// Writes the recommendations of all users to `items` and `scores`, both of shape (rows, list_length()).
  /// Items are sorted by descending score, and ties by ascending item. Unused positions have item -1 and
  /// score -inf. Users without items and features receive the most popular train items with score NaN.
  /// `features` has the same number of rows as `seen`, or none. Throws InputError if an item or feature index
  /// is out of range.
  void recommend(CsrView seen, CsrView features, std::span<std::int32_t> items, std::span<float> scores);
  /// Writes the reasons for the items that recommend() returned for the same users: those of the user's items
  /// with the largest contributions to the item's score, largest first, the lower item first of equal ones,
  /// and these contributions, both of shape (rows, list_length(), reasons). Unused positions, and those of
  /// users with popular items, have item -1 and contribution NaN. `last` contains those of the items that a
  /// network is to leave out; without rows, these are the last models::Reasons::max_left_out items by number.
  /// The device must compute in fp32. Throws std::logic_error if the contributions in a linear model do not
  /// add up to the score.
  void explain(CsrView seen, CsrView last, CsrView features, std::span<const std::int32_t> items,
               std::span<const float> scores, std::span<std::int32_t> because,
               std::span<float> contributions);

 private:
  /// The users of a call of recommend().
  struct Inputs {
    CsrView seen;
    CsrView features;
    models::LoadedUsers& users;
  };
  /// Writes the best `width` items of users `rows` and their scores, without limits of categories.
  void rank(const Inputs& inputs, Range rows, std::int64_t width, std::span<std::int32_t> items,
            std::span<float> scores);
  /// Adds the lists of `width` items that the other ranks of a model-parallel group have computed. Collective
  /// in the model-parallel group.
  void complete_lists(std::int64_t users, std::int64_t width, std::span<std::int32_t> items,
                      std::span<float> scores) const;

  io::CheckpointFile checkpoint_;
  RecommendOptions choice_;
  std::unique_ptr<comm::Communicator> self_;
  Context single_rank_;
  std::int64_t items_ = 0;
  std::int64_t allowed_count_ = 0;
  std::vector<std::int32_t> excluded_;  // ascending
  std::unique_ptr<models::Scorer> model_;
  std::unique_ptr<models::Reasons> reasons_;        // null if no reasons are chosen
  std::unique_ptr<models::Popularity> popularity_;  // created on first use
};

}  // namespace vaecf::run
