#pragma once

#include <vaecf/base/aligned_array.hpp>
#include <vaecf/context/context.hpp>
#include <vaecf/device/host_products.hpp>
#include <vaecf/models/kind.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace vaecf::models {

/// Rows (items, factors) of an orthonormal basis, in memory for products: the rest of each row, and rows up
/// to a whole block, are 0.
struct LowRankBasis {
  static constexpr std::int64_t block = 64;  ///< items, and factors, of a product

  LowRankBasis() = default;
  LowRankBasis(std::int64_t of_items, std::int64_t of_factors)
      : items(of_items),
        factors(of_factors),
        stride(rounded_up(of_factors)),
        values(rounded_up(of_items) * stride) {}

  device::HostMatrix<const float> row(std::int64_t item) const {
    return {values.data() + item * stride, stride};
  }
  static std::int64_t rounded_up(std::int64_t n) { return (n + block - 1) / block * block; }

  std::int64_t items = 0;
  std::int64_t factors = 0;
  std::int64_t stride = 0;
  AlignedArray<float> values;
  std::vector<std::int64_t> users;  ///< d_i: number of users of each item
};

/// Returns a basis Q of the space of the leading min(factors, items, users, rank) right singular vectors of
/// R = D_u^-1/2 X D_i^-1/2, where X is 1 for each pair of a user and an item, and D_u, D_i are the numbers of
/// pairs of users and items. Q Q' is the same for every such basis, so that subspace iteration finds it
/// (Rutishauser, "Simultaneous iteration method for symmetric matrices", 1970), with `iterations` products
/// with R'R, and no SVD. A column that is almost in the span of those before it becomes 0, as do the rows of
/// items without users. Users and items are distributed over the ranks; every rank has all rows afterwards.
/// The bits do not depend on the number of ranks or threads. Returns null on all ranks if the run was
/// requested to stop. Collective.
std::shared_ptr<const LowRankBasis> make_low_rank_basis(const Interactions& train, std::int64_t factors,
                                                        std::int64_t iterations, const Context& context,
                                                        int threads);

/// Returns the floating-point operations of make_low_rank_basis() on all ranks.
double low_rank_basis_operations(double items, double pairs, double factors, double iterations);

}  // namespace vaecf::models
