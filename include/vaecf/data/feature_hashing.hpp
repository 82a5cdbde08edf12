#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vaecf::data {

/// A column of the users' table, such as "occupation", and how its values are spread.
struct FeatureColumn {
  std::string name;
  std::int64_t hashes = 2;    ///< each value sets this many columns, one in each of as many blocks
  std::int64_t buckets = 16;  ///< columns of a block
  bool operator==(const FeatureColumn&) const = default;
};

/// Turns what is known of a user (categories, as text) into a 0/1 row of F columns, F being fixed and small
/// whatever values come: value v of column c, named n, sets for each of its hashes j the column
///   first(c) + j buckets(c) + XXH64(v, seed = XXH64(n, seed = j)) mod buckets(c),
/// first(c) being the sum of hashes x buckets of the columns before. (Hashing trick: Weinberger et al., ICML
/// 2009; several hashes as in Svenstrup et al., "Hash embeddings", NeurIPS 2017.) With sqrt(n) buckets and 2
/// hashes a third of n values keep a pair of columns of their own, and the others share theirs with one or
/// two; with 3 hashes nearly all do.
class FeatureHashing {
 public:
  /// No columns: F = 0.
  FeatureHashing() = default;
  /// InputError for names that are empty, of two lines or given twice, for hashes beyond 1 to 16, buckets
  /// below 1, more than 4096 names, and more columns than 2^31 - 1.
  explicit FeatureHashing(std::vector<FeatureColumn> layout);

  /// What to_string() gave: the attribute `feature_hashing` of datasets and checkpoints. InputError for any
  /// other text.
  static FeatureHashing parse(std::string_view text);
  /// "xxh64 1", then for each column a line "HASHES BUCKETS NAME".
  std::string to_string() const;

  /// By default: near the square root of the number of different values, at least 16.
  static std::int64_t default_buckets(std::int64_t values);

  /// The names of the columns of the table, in the order of `values` below.
  std::vector<std::string> columns() const;
  const std::vector<FeatureColumn>& layout() const { return layout_; }
  /// F, the width of a row.
  std::int64_t features() const { return features_; }

  /// Ascending and unique. A value for each of columns(); an empty one, nothing being known, sets nothing.
  /// InputError for another number of values.
  std::vector<std::int32_t> row(std::span<const std::string> values) const;
  /// Adds what `value` of the column at `index` sets to `row`, ascending.
  void append(std::size_t index, std::string_view value, std::vector<std::int32_t>& row) const;

  bool operator==(const FeatureHashing& other) const { return layout_ == other.layout_; }

 private:
  std::vector<FeatureColumn> layout_;
  std::vector<std::int64_t> first_;                // per column
  std::vector<std::vector<std::uint64_t>> seeds_;  // per column and hash
  std::int64_t features_ = 0;
};

}  // namespace vaecf::data
