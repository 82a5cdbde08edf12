#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/device/tensor_layout.hpp>
#include <vaecf/math/metrics.hpp>
#include <vaecf/math/ranking.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace vaecf::io {
class CheckpointFile;
}

namespace vaecf::models {

/// Users in host memory. Row u of each matrix belongs to user first_user + u of their set.
struct UserData {
  CsrView items;     ///< interactions of each user
  CsrView features;  ///< features of the same users; unused by a model without features
  CsrView targets;   ///< held-out items; may be empty if nothing is evaluated
  std::int64_t first_user = 0;
};

/// A set of users stored on the model's device. The memory that their UserData refers to must outlive this
/// object.
class LoadedUsers {
 public:
  virtual ~LoadedUsers() = default;
};

/// Selects whether a user's interactions are part of the input; features always are. A user's items are
/// excluded from rankings and recommendations in both cases.
enum class History { items, none };

/// A model as used by validation, test and recommend, neural or not: it scores items for users. LoadedUsers
/// that are passed to a scorer must have been made by a scorer of the same class.
class Scorer {
 public:
  virtual ~Scorer() = default;
  virtual std::int64_t items() const = 0;
  /// Number of feature columns that the model takes as input; 0: none.
  virtual std::int64_t features() const = 0;

  /// Returns the number of models that rank_targets() and top_k() compute the results of, one after the
  /// other.
  virtual std::int64_t variants() const { return 1; }

  /// Stores `users` on the model's device. The memory that `users` refers to must outlive the result.
  virtual std::unique_ptr<LoadedUsers> load_users(const UserData& users) = 0;
  /// Ranks each user's targets among all items that the user does not have. Returns the ranks, from 0,
  /// (variants, targets of all users); that of a target which the user has is the number of items. Calls
  /// `progressed` after every batch, with the number of users so far. Throws InputError if features are
  /// missing.
  virtual std::vector<std::int32_t> rank_targets(
      LoadedUsers& users, History history, const std::function<void(std::int64_t users)>& progressed) = 0;
  /// Writes the `k` best items of users `rows` and their scores, (variants, rows, k) each, best first; the
  /// lower item wins ties. Excludes the items that a user already has, unless `keep_seen` is set. If fewer
  /// than k items are left, the remaining entries are item -1 and score -infinity. `rows` must not exceed
  /// max_users().
  virtual void top_k(LoadedUsers& users, Range rows, History history, bool keep_seen, int k,
                     std::span<std::int32_t> items, std::span<float> scores) = 0;
  /// Calls take(row, item, score) for the items of each of the users `rows`, in the order of top_k(), until
  /// it returns false or there are no more; `first` items are enough for most users. Several threads call it,
  /// with a user each. Returns false, having done nothing, if the scorer has top_k() only.
  using Take = std::function<bool(std::int64_t row, std::int32_t item, float score)>;
  virtual bool for_each_ranked(LoadedUsers& /*users*/, Range /*rows*/, bool /*keep_seen*/,
                               std::int64_t /*first*/, const Take& /*take*/) {
    return false;
  }
  /// Returns the maximum number of users per batch.
  virtual std::int64_t max_users() const = 0;
  /// Returns whether a model-parallel group shares the items of the model. rank_targets() and top_k() are
  /// then collective in the model-parallel group, with the same users, and each rank computes the results of
  /// its own_users(); those of the others stay as they are (ranks: 0).
  virtual bool divides_items() const { return false; }
  /// Returns the users of a batch of `users` whose results this rank computes.
  virtual Range own_users(std::int64_t users) const { return {0, users}; }
  /// Gives every item i with allowed_items[i] = 0 the score -infinity until the next call; `allowed_items`
  /// has one entry per item, or none: then no item is excluded.
  virtual void restrict_to(std::span<const std::uint8_t> allowed_items) = 0;
  /// Returns the number of elements of item_vectors() and user_vectors(), whose inner product is the score of
  /// the item for the user, or what the score increases with; 0: the model has no such vectors.
  virtual std::int64_t vector_width() { return 0; }
  /// Writes the vectors of `items`, (items, vector_width()), while no item is excluded.
  virtual void item_vectors(Range /*items*/, std::span<float> /*vectors*/) {}
  /// Writes the vectors of users `rows`, (rows, vector_width()). `rows` must not exceed max_users().
  virtual void user_vectors(LoadedUsers& /*users*/, Range /*rows*/, std::span<float> /*vectors*/) {}
  /// Writes the similarity of every item to each of some, (items, items()); -infinity for none. That of an
  /// item to itself has any value. Not for a model that a model-parallel group shares.
  virtual void similarities(std::span<const std::int32_t> items, std::span<float> out) const = 0;
  /// Returns a scorer with the same weights and a state of its own, which another thread may use.
  /// Thread-safe. Null if scorers of this class cannot share their weights.
  virtual std::unique_ptr<Scorer> share() const { return nullptr; }
};

/// A scorer with tensors of known shapes, which are read and written by rows.
class Model : public Scorer {
 public:
  /// Returns the shapes of the model's tensors, in the order in which tensor indices count. A checkpoint
  /// stores them below /weights.
  virtual std::vector<device::TensorSpec> tensors() const = 0;
  /// Copies `rows` of tensor `tensor` into `values`, row-major.
  virtual void read_rows(int tensor, Range rows, std::span<float> values) const = 0;
  /// Overwrites `rows` of tensor `tensor` with `values`, row-major.
  virtual void write_rows(int tensor, Range rows, std::span<const float> values) = 0;
  /// Must be called after the last write_rows() and before the model is used.
  virtual void finish_writing() = 0;
};

/// The least number of rows in which a tensor is read and written: an output table is stored by items, and
/// slow to read row by row.
inline constexpr std::int64_t min_block_rows = 8;

/// Reads the weights of a checkpoint on rank 0, for all ranks. All ranks must call the functions in the same
/// order. Errors are InputErrors, thrown on all ranks.
class WeightReader {
 public:
  virtual ~WeightReader() = default;
  /// Calls `read` with the file on rank 0 only. Collective.
  virtual void read_file(const std::function<void(const io::CheckpointFile&)>& read) = 0;
  /// Reads the weights of a model, in blocks of rows. Throws InputError if tensors are missing or have other
  /// shapes than those of the model. Collective.
  virtual void load_weights(Model& model) = 0;
};

}  // namespace vaecf::models
