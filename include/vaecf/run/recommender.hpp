#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/evaluate/evaluator.hpp>
#include <vaecf/evaluate/popularity.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/models/model.hpp>
#include <vaecf/run/run.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace vaecf::run {

/// What is recommended to users.
struct RecommendOptions {
  int k = 10;              ///< number of items per user
  bool keep_seen = false;  ///< also recommend items that the user already has
  std::vector<std::uint8_t>
      allowed_items;    ///< (I) 0 for items that must not be recommended; empty: all are allowed
  int reasons = 0;      ///< number of the user's items named as reasons for each item; 0: none
  Csr categories = {};  ///< (I) numbers of the categories of each item; no rows: no limit
  int at_most = 0;      ///< maximum number of items of a category in a list
};

/// The users of one call, and what is recommended to them.
struct RecommendRequest {
  const RecommendOptions& choice;
  CsrView seen;           ///< the users' items
  CsrView features = {};  ///< as many rows as `seen`, or none
  /// Those of the items that a network is to leave out to explain its scores; without rows, these are the
  /// last models::Reasons::max_left_out items by number.
  CsrView last = {};
  CsrView excluded = {};  ///< items not to recommend to each user; as many rows as `seen`, or none
};

/// The items most similar to an item, best first, ties by item.
struct SimilarItems {
  std::vector<std::int32_t> items;
  std::vector<float> scores;
};

/// Returns the mask of the items that may be recommended, for RecommendOptions: those of `included` or,
/// without `only_included`, all but the last `new_items`; never those of `excluded`. Empty: all items.
std::vector<std::uint8_t> allowed_items(std::int64_t items, std::int64_t new_items, bool only_included,
                                        std::span<const std::int32_t> included,
                                        std::span<const std::int32_t> excluded);

/// Recommends the top items of users with the model of a checkpoint, which may be trained on any device. No
/// dataset is needed. It works on one rank, independently of other ranks, or on a model-parallel group. All
/// ranks of a model-parallel group must call its functions in the same order, with the same users. The model
/// does not change: everything that belongs to a request is in the request, and its buffers in the call.
/// Several threads may call the functions at once; requests to a model that is not linear, or on a GPU, then
/// wait for each other.
class Recommender {
 public:
  /// Number of users per forward pass. Batches start at the first user of a call. On the CPU, results depend
  /// on the users of a batch, but not on the number of threads.
  static constexpr std::int64_t batch_users = 256;

  /// The context must outlive this object. With `explains`, explain() may be called, and the device must
  /// compute in fp32. Throws InputError if the model of `options` is not that of the checkpoint.
  Recommender(const config::TrainingConfig& options, const Context& context,
              const io::CheckpointFile& checkpoint, bool explains);
  ~Recommender();

  /// Returns the number of items per user: k, or the number of allowed items if that is less. Lists are
  /// shorter if categories are limited and too few items are left. Throws InputError if k < 1, or no item may
  /// be recommended.
  std::int64_t list_length(const RecommendOptions& choice) const;
  std::int64_t items() const { return items_; }
  /// Returns the number of user features of the model; 0 if it has none.
  std::int64_t features() const { return model_->features(); }
  /// Writes the recommendations of all users to `items` and `scores`, both of shape (rows, list_length()).
  /// Items are sorted by descending score, and ties by ascending item. Unused positions have item -1 and
  /// score -inf. Users without items and features receive the most popular train items with score NaN.
  /// Throws InputError if an item or feature index is out of range, and as list_length().
  void recommend(const RecommendRequest& request, std::span<std::int32_t> items,
                 std::span<float> scores) const;
  /// Writes the reasons for the items that recommend() returned for the same users: those of the user's items
  /// with the largest contributions to the item's score, largest first, the lower item first of equal ones,
  /// and these contributions, both of shape (rows, list_length(), reasons). Unused positions, and those of
  /// users with popular items, have item -1 and contribution NaN. Throws std::logic_error if the
  /// contributions in a linear model do not add up to the score.
  void explain(const RecommendRequest& request, std::span<const std::int32_t> items,
               std::span<const float> scores, std::span<std::int32_t> because,
               std::span<float> contributions) const;

  /// Returns the number of elements of a vector; 0: the model has none.
  std::int64_t vector_width() const;
  /// Writes the vectors of `items`, (items, vector_width()).
  void item_vectors(Range items, std::span<float> vectors) const;
  /// Writes the vectors of the request's users, (users, vector_width()): of `seen` and `features` only.
  /// Throws InputError if an item or feature index is out of range.
  void user_vectors(const RecommendRequest& request, std::span<float> vectors) const;
  /// Returns for each of `items` at most `k` others that are the most similar by the weights of the model.
  /// Not for a model that a model-parallel group shares.
  std::vector<SimilarItems> similar(std::span<const std::int32_t> items, int k) const;

 private:
  class Session;
  /// The users of a call of recommend().
  struct Inputs;
  /// Writes the best `width` items of users `rows` and their scores, without limits of categories
  /// and items excluded for single users.
  void rank(const Inputs& inputs, Range rows, std::int64_t width, std::span<std::int32_t> items,
            std::span<float> scores) const;
  /// Writes the lists of users `rows`, at most a batch, with limits of categories and without the items that
  /// `excluded` has for each user of the request.
  void limit(const Inputs& inputs, CsrView excluded, Range rows, std::span<std::int32_t> items,
             std::span<float> scores) const;
  /// Adds the lists of `width` items that the other ranks of a model-parallel group have computed. Collective
  /// in the model-parallel group.
  void complete_lists(std::int64_t users, std::int64_t width, std::span<std::int32_t> items,
                      std::span<float> scores) const;

  std::unique_ptr<comm::Communicator> self_;
  Context single_rank_;
  std::int64_t items_ = 0;
  mutable std::mutex one_at_a_time_;  // of requests to a model that cannot be shared
  std::unique_ptr<models::Scorer> model_;
  std::unique_ptr<models::Reasons> reasons_;  // null unless it explains
  evaluate::Popularity popularity_;
};

}  // namespace vaecf::run
