#pragma once

#include <vaecf/context/context.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/models/kind.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/linear/low_rank_basis.hpp"

namespace vaecf::models {

/// The low-rank term T (items, items) of weights between items, with the basis Q and the numbers of users d:
///   T_ij = alpha d_i^-beta d_j^beta sum_k Q_ik Q_jk (i != j), T_ii = 0.
class LowRankTerm {
 public:
  /// `weight` is alpha, `power` beta.
  LowRankTerm(std::shared_ptr<const LowRankBasis> basis, double weight, double power);

  /// Makes the term of another weight and power with the basis of `other`.
  LowRankTerm(const LowRankTerm& other, double weight, double power);

  /// Makes the term of stored d_i^-beta and alpha d_j^beta.
  LowRankTerm(std::shared_ptr<const LowRankBasis> basis, std::vector<float> source,
              std::vector<float> target);

  const LowRankBasis& basis() const { return *basis_; }
  std::span<const float> source() const { return source_; }
  std::span<const float> target() const { return target_; }
  /// Returns T_ij for i = `source` and j = `target`.
  float weight(std::int32_t source, std::int32_t target) const;
  /// Adds x T for each of `users` to the scores (users, items).
  void add_scores(std::span<const SparseRow> users, std::span<float> scores) const;
  /// Writes what x T of each of `users` has in common with the terms of other weights: sum over i and k of
  /// x_i d_i^-beta Q_ik Q_jk, (users, items).
  void multiply(std::span<const SparseRow> users, std::span<float> products) const;
  /// As above, with the result of multiply() of a term of the same power; the bits are the same.
  void add_scores(std::span<const SparseRow> users, std::span<const float> products,
                  std::span<float> scores) const;
  /// Adds rows `rows` of T to `out` (rows, items), with `threads` threads.
  void add_rows(Range rows, std::span<float> out, int threads) const;
  /// Writes columns `targets` of T to `out` (targets, items).
  void read_columns(std::span<const std::int32_t> targets, std::span<float> out) const;

  /// The largest number of columns at once.
  static constexpr std::int64_t max_at_once = 32;

 private:
  void set_scales(double weight, double power);
  void add_squares();
  /// Calls use(row, columns, products) for rows of `left` (rows, factors), at most max_at_once, and blocks of
  /// items: products[n] is that of the row and column columns.begin + n of Q'.
  template <class Use>
  void for_products(const float* left, std::int64_t rows, const Use& use) const;
  /// Calls use(row, columns, products) as for_products() does, for the rows of `users`.
  template <class Use>
  void for_products_of(std::span<const SparseRow> users, const Use& use) const;
  /// Adds alpha d_j^beta products_j to the scores of one user, for the items j of `columns`.
  void add_scaled(Range columns, const float* products, float* scores) const;
  void subtract_diagonal(std::span<const SparseRow> users, std::span<float> scores) const;

  std::shared_ptr<const LowRankBasis> basis_;
  std::vector<float> source_;   // d_i^-beta
  std::vector<float> target_;   // alpha d_j^beta
  std::vector<float> squares_;  // sum_k Q_ik^2
};

/// Returns `base`, with weights between `items` items, with the term. Dense weights contain it where they are
/// stored, which `threads` threads do. Others are stored with the factors of the term.
std::shared_ptr<const ItemModel> add_low_rank(std::shared_ptr<const ItemModel> base, LowRankTerm term,
                                              std::int64_t items, int threads);

/// Returns what a title says about the term of a checkpoint; empty if it has none.
std::string low_rank_title(const io::Attributes& attributes);

/// The names of Q (items, factors), d_i^-beta and alpha d_j^beta (items) of the term in a checkpoint.
inline constexpr const char* factors_name = "weights/items/factors";
inline constexpr const char* factor_source_name = "weights/items/factor_source";
inline constexpr const char* factor_target_name = "weights/items/factor_target";

/// Returns whether a checkpoint has the factors of a term.
bool has_low_rank(const io::CheckpointFile& file);

/// Reads the term of a checkpoint of a model of `items` items that has_low_rank(). Throws InputError if it is
/// not valid.
LowRankTerm read_low_rank(const io::CheckpointFile& file, std::int64_t items);

/// Returns a model with sparse weights and the term that rank 0 has read, null for none. Collective.
std::shared_ptr<const ItemModel> share_low_rank(std::shared_ptr<const ItemModel> sparse,
                                                const LowRankTerm* term, std::int64_t items,
                                                const Context& context);

}  // namespace vaecf::models
