#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/device/parameters.hpp>
#include <vaecf/math/metrics.hpp>
#include <vaecf/model/model_options.hpp>
#include <vaecf/model/network_shape.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace vaecf::model {

/// The names that model.type may have; make_model.hpp has a function for each, in this order.
inline constexpr std::array model_types{"mult_vae", "mult_dae"};

/// Users in host memory: row u of each matrix belongs to user number first_user + u of their set.
struct UserData {
  CsrView items;     ///< the items that each user has
  CsrView features;  ///< of the same users; unused by a model without features
  CsrView targets;   ///< held-out items; may be empty if nothing is evaluated
  std::int64_t first_user = 0;
};

/// Users kept where a model computes. The memory behind their UserData must outlive this object.
class HeldUsers {
 public:
  virtual ~HeldUsers() = default;
};

/// The part of a user's data that a model gets as input, beside the features. Items that a user has are left
/// out of rankings and recommendations either way.
enum class History { items, none };

/// A trained model as test and recommend use it, a network or not: it scores items for
/// users, and has items and tensors. Functions that take HeldUsers take those that this model made.
class Model {
 public:
  virtual ~Model() = default;
  virtual std::int64_t items() const = 0;
  /// Columns of user features that the model reads; 0: none.
  virtual std::int64_t features() const = 0;

  /// Returns the tensors of the model as a checkpoint stores them, below /weights.
  virtual std::vector<device::TensorSpec> tensors() const = 0;
  /// Copies rows of tensor number `tensor` into `values`, row-major.
  virtual void read_rows(int tensor, Range rows, std::span<float> values) const = 0;
  /// Overwrites rows of tensor number `tensor` with `values`, row-major.
  virtual void write_rows(int tensor, Range rows, std::span<const float> values) = 0;
  /// Must follow the last write_rows, before the next use.
  virtual void finish_writing() = 0;

  virtual std::unique_ptr<HeldUsers> hold(const UserData& users) = 0;
  /// Ranks each user's targets among all items but those that the user has, and returns the sums of each
  /// metric over the users with a target. `progressed` is called between batches of users. Throws InputError
  /// if features are missing.
  virtual std::vector<math::MetricSums> evaluate(HeldUsers& users, History history,
                                                 std::span<const math::Metric> metrics,
                                                 const std::function<void()>& progressed) = 0;
  /// Writes the k best items of users `rows`, best first, ties to the lower item, and their scores, (rows, k)
  /// each: of the items that a user does not have, or of all if `keep_seen`. If fewer than k are left, item
  /// -1 and score -inf. At most max_users() at a time.
  virtual void top_k(HeldUsers& users, Range rows, History history, bool keep_seen, int k,
                     std::span<std::int32_t> items, std::span<float> scores) = 0;
  virtual std::int64_t max_users() const = 0;
  /// Items with `offers` 0, one entry per item, get the score -inf from now on.
  virtual void exclude_items(std::span<const std::uint8_t> offers) = 0;
};

}  // namespace vaecf::model
