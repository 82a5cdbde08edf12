#pragma once

#include <vaecf/base/enum_names.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vaecf::data {

/// A column of a table of users or items, such as "occupation", and how its values are hashed.
struct FeatureColumn {
  std::string name;
  std::int64_t hashes = 2;    ///< number of features that each value sets, one in each block of features
  std::int64_t buckets = 16;  ///< number of features in a block
  bool operator==(const FeatureColumn&) const = default;
};

/// Maps the categorical attributes of a user or item to a 0/1 row of F features. F is independent of the
/// number of distinct values. Value v of column c, whose name is n, sets for each j in [0, hashes(c)) the
/// feature
///   first(c) + j * buckets(c) + XXH64(v, seed = XXH64(n, seed = j)) mod buckets(c),
/// where first(c) is the sum of hashes * buckets over the columns before c. This is the hashing trick
/// (Weinberger et al., ICML 2009) with several hashes, as in Svenstrup et al., "Hash embeddings", NeurIPS
/// 2017. With m distinct values, sqrt(m) buckets and 2 hashes, about a third of the values have a unique set
/// of features. Most others share theirs with one or two values. With 3 hashes nearly all sets are unique.
class FeatureHashing {
 public:
  /// Makes a hashing without columns: F = 0.
  FeatureHashing() = default;
  /// Throws InputError if a name is empty, contains a line break or occurs twice, if there are more than 4096
  /// columns, if `hashes` is not in 1 to 16, if `buckets` is below 1, or if F exceeds 2^31 - 1.
  explicit FeatureHashing(std::vector<FeatureColumn> layout);

  /// Parses the output of to_string(), the attributes `feature_hashing` and `item_feature_hashing` of
  /// datasets and checkpoints. Throws InputError if `text` has any other form.
  static FeatureHashing parse(std::string_view text);
  /// Returns "xxh64 1" and, for each column, a line "HASHES BUCKETS NAME".
  std::string to_string() const;

  /// Returns the default number of buckets for `values` distinct values: as many, but at least 16.
  static std::int64_t default_buckets(std::int64_t values);

  /// Returns the names of the table columns, in the order of `values` of row().
  std::vector<std::string> columns() const;
  const std::vector<FeatureColumn>& layout() const { return layout_; }
  /// Returns F, the width of a row.
  std::int64_t features() const { return features_; }

  /// Returns the features of a user: unique indices in [0, F), ascending. `values` has one value per column;
  /// an empty value is missing and sets no feature. Throws InputError if the number of values differs from
  /// the number of columns.
  std::vector<std::int32_t> row(std::span<const std::string> values) const;
  /// Appends to `row`, in ascending order, the features that `value` of column `index` (from 0) sets; an
  /// empty value sets none.
  void append(std::size_t index, std::string_view value, std::vector<std::int32_t>& row) const;

  /// Returns the features that values of columns set, given with the names of the columns, of which one may
  /// have several values: unique indices, ascending. Throws InputError if there is no column of such a name.
  std::vector<std::int32_t> features_of(const std::vector<std::pair<std::string, std::string>>& values) const;

  bool operator==(const FeatureHashing& other) const { return layout_ == other.layout_; }

 private:
  std::vector<FeatureColumn> layout_;
  std::vector<std::int64_t> first_;                // per column
  std::vector<std::vector<std::uint64_t>> seeds_;  // per column and hash
  std::int64_t features_ = 0;
};

}  // namespace vaecf::data
