#include "models/linear/low_rank_basis.hpp"

#include <vaecf/base/log.hpp>
#include <vaecf/base/parallel_for.hpp>
#include <vaecf/math/random.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace vaecf::models {
namespace {

constexpr std::int64_t block = LowRankBasis::block;
constexpr double smallest_pivot = 1e-10;  // relative to the largest
// The start matrix has random numbers of its own: no model has so many tensors.
constexpr std::uint32_t random_tensor = 1U << 31U;

/// Returns n^-1/2 for the size n of each row; 0 for empty rows.
std::vector<float> inverse_roots(const CsrView& rows) {
  std::vector<float> roots;
  for (std::int64_t r = 0; r < rows.rows(); ++r) {
    const auto size = static_cast<double>(rows.row_size(r));
    roots.push_back(size > 0.0 ? static_cast<float>(1.0 / std::sqrt(size)) : 0.0F);
  }
  return roots;
}

/// Returns the rows of rank `rank` of `ranks`, which have about the same number of entries on each rank.
Range rows_by_entries(const CsrView& rows, int rank, int ranks) {
  const auto first_of = [&](int r) {
    const std::int64_t entries = rows.entries() * r / ranks;
    return std::ranges::lower_bound(rows.offsets.first(static_cast<std::size_t>(rows.rows())), entries) -
           rows.offsets.begin();
  };
  return {rank == 0 ? 0 : first_of(rank), rank + 1 == ranks ? rows.rows() : first_of(rank + 1)};
}

/// Returns whole blocks of n rows: those of rank `rank` of `ranks`.
Range rows_by_blocks(std::int64_t n, int rank, int ranks) {
  const std::int64_t blocks = LowRankBasis::rounded_up(n) / block;
  return {blocks * rank / ranks * block, blocks * (rank + 1) / ranks * block};
}

/// Returns L^-T (n, n) for the Cholesky factor L of a matrix, of which `matrix` has the upper triangle. Row
/// and column j are 0 if pivot j is too small.
std::vector<double> inverse_factor(const std::vector<double>& matrix, std::int64_t n, int threads) {
  double largest = 0.0;
  for (std::int64_t j = 0; j < n; ++j) largest = std::max(largest, matrix[j * n + j]);
  std::vector<double> lower(matrix.size(), 0.0), inverse(matrix.size(), 0.0);
  for (std::int64_t j = 0; j < n; ++j) {
    double* row = &lower[j * n];
    double pivot = matrix[j * n + j];
    for (std::int64_t k = 0; k < j; ++k) {
      const double* other = &lower[k * n];
      if (other[k] == 0.0) continue;
      double sum = matrix[k * n + j];
      for (std::int64_t i = 0; i < k; ++i) sum -= row[i] * other[i];
      row[k] = sum / other[k];
      pivot -= row[k] * row[k];
    }
    if (pivot > smallest_pivot * largest) {
      row[j] = std::sqrt(pivot);
    } else {
      std::fill_n(row, j, 0.0);
    }
  }
  parallel_for(threads, {0, n}, [&](std::int64_t a) {
    double* to = &inverse[a * n];
    for (std::int64_t j = a; j < n; ++j) {
      const double* row = &lower[j * n];
      if (lower[a * n + a] == 0.0 || row[j] == 0.0) continue;
      double sum = j == a ? 1.0 : 0.0;
      for (std::int64_t k = a; k < j; ++k) sum -= to[k] * row[k];
      to[j] = sum / row[j];
    }
  });
  return inverse;
}

/// One call of make_low_rank_basis().
class BasisMaker {
 public:
  BasisMaker(const Interactions& train, std::int64_t factors, const Context& context, int threads)
      : users_(train.users.view()),
        items_(train.items.view()),
        ranks_(context.communicator),
        threads_(threads),
        of_users_(inverse_roots(users_)),
        of_items_(inverse_roots(items_)) {
    const auto present = [](const std::vector<float>& roots) {
      return std::ssize(roots) - std::ranges::count(roots, 0.0F);
    };
    basis_ = std::make_shared<LowRankBasis>(items_.rows(),
                                            std::min({factors, present(of_items_), present(of_users_)}));
    for (std::int64_t i = 0; i < items_.rows(); ++i) basis_->users.push_back(items_.row_size(i));
    width_ = basis_->stride;
    projected_.resize(users_.rows() * width_);
    parallel_for(threads, {0, items_.rows()}, [&](std::int64_t item) {
      for (std::int64_t k = 0; k < basis_->factors && items_.row_size(item) > 0; ++k) {
        const auto index = (static_cast<std::uint64_t>(item) << 32U) + static_cast<std::uint64_t>(k);
        basis_->values[item * width_ + k] = math::normal_element(0, random_tensor, index);
      }
    });
  }

  /// Replaces the basis Q by R'R Q.
  void multiply() {
    multiply(users_, of_users_, of_items_, basis_->values, projected_);
    multiply(items_, of_items_, of_users_, projected_, basis_->values);
  }

  void orthonormalize() {
    const std::vector<double> factor = inverse_factor(gram(), width_, threads_);
    const std::int64_t items = basis_->items;
    std::vector<AlignedArray<double>> buffers(static_cast<std::size_t>(threads_));
    const Range own = rows_by_blocks(items, ranks_.rank(), ranks_.size());
    parallel_for(
        threads_, {own.begin / block, own.end / block},
        [&](int thread, std::int64_t number) {
          AlignedArray<double>& buffer = buffers[static_cast<std::size_t>(thread)];
          buffer.resize(2 * block * width_);
          double* const result = buffer.data() + block * width_;
          float* const rows = basis_->values.data() + number * block * width_;
          std::copy_n(rows, block * width_, buffer.data());
          std::fill_n(result, block * width_, 0.0);
          for (std::int64_t column = 0; column < width_; column += block)
            device::add_product(false, block, block, column + block, {buffer.data(), width_},
                                {factor.data() + column, width_}, {result + column, width_});
          std::copy_n(result, block * width_, rows);
        },
        NoProgress{}, 1);
    gather(basis_->values, [&](int rank) { return rows_by_blocks(items, rank, ranks_.size()); });
  }

  std::shared_ptr<LowRankBasis> basis() { return basis_; }

 private:
  /// Computes the rows `of_rows`_r sum_c `of_columns`_c x_c of all ranks.
  void multiply(const CsrView& rows, const std::vector<float>& of_rows, const std::vector<float>& of_columns,
                const AlignedArray<float>& x, AlignedArray<float>& result) {
    const auto rows_of = [&](int rank) { return rows_by_entries(rows, rank, ranks_.size()); };
    parallel_for(threads_, rows_of(ranks_.rank()), [&](std::int64_t r) {
      device::sum_rows(rows.row(r), of_columns.data(), {x.data(), width_}, width_,
                       of_rows[static_cast<std::size_t>(r)], &result[r * width_]);
    });
    gather(result, rows_of);
  }

  /// Copies the rows of each rank to all ranks.
  template <class RowsOf>
  void gather(AlignedArray<float>& values, const RowsOf& rows_of) {
    for (int rank = 0; rank < ranks_.size() && ranks_.size() > 1; ++rank) {
      const Range rows = rows_of(rank);
      ranks_.broadcast(view(values, {rows.begin * width_, rows.end * width_}), rank);
    }
    ranks_.activity().note_progress();
  }

  /// Returns the blocks (width, width) of Q'Q on and above the diagonal. Ranks share the blocks, each of
  /// which is the sum over all items in order.
  std::vector<double> gram() {
    constexpr std::int64_t items_at_once = 256;
    std::vector<std::pair<std::int64_t, std::int64_t>> own;
    std::int64_t number = 0;
    for (std::int64_t a = 0; a < width_; a += block)
      for (std::int64_t b = a; b < width_; b += block)
        if (number++ % ranks_.size() == ranks_.rank()) own.emplace_back(a, b);
    std::vector<double> result(static_cast<std::size_t>(width_ * width_), 0.0);
    std::vector<AlignedArray<double>> buffers(static_cast<std::size_t>(threads_));
    parallel_for(
        threads_, {0, std::ssize(own)},
        [&](int thread, std::int64_t n) {
          AlignedArray<double>& buffer = buffers[static_cast<std::size_t>(thread)];
          buffer.resize(2 * items_at_once * block);
          double* const left = buffer.data();
          double* const right = left + items_at_once * block;
          const auto [a, b] = own[static_cast<std::size_t>(n)];
          for (std::int64_t begin = 0; begin < basis_->items; begin += items_at_once) {
            const std::int64_t count = std::min(items_at_once, basis_->items - begin);
            for (std::int64_t i = 0; i < count; ++i) {
              const float* row = basis_->row(begin + i).data;
              std::copy_n(row + a, block, left + i * block);
              std::copy_n(row + b, block, right + i * block);
            }
            device::add_product(true, block, block, count, {left, block}, {right, block},
                                {&result[a * width_ + b], width_});
          }
        },
        NoProgress{}, 1);
    if (ranks_.size() > 1) ranks_.all_reduce(std::span(result));
    return result;
  }

  CsrView users_;
  CsrView items_;
  comm::Communicator& ranks_;
  int threads_;
  std::vector<float> of_users_, of_items_;  // n^-1/2
  std::shared_ptr<LowRankBasis> basis_;
  std::int64_t width_ = 0;
  AlignedArray<float> projected_;  // R Q (users, width)
};

}  // namespace

std::shared_ptr<const LowRankBasis> make_low_rank_basis(const Interactions& train, std::int64_t factors,
                                                        std::int64_t iterations, const Context& context,
                                                        int threads) {
  BasisMaker maker(train, factors, context, threads);
  context.progress.begin(format("low-rank basis, {} factors", maker.basis()->factors), iterations,
                         "iterations");
  bool stopped = false;
  for (std::int64_t q = 0; q < iterations && !stopped; ++q) {
    maker.multiply();
    maker.orthonormalize();
    context.progress.update(q + 1);
    stopped = context.any_rank_asked_to_stop();
  }
  context.progress.end();
  if (stopped) return nullptr;
  maker.orthonormalize();
  return maker.basis();
}

double low_rank_basis_operations(double items, double pairs, double factors, double iterations) {
  return iterations * 4.0 * pairs * factors + (iterations + 1.0) * 2.0 * items * factors * factors;
}

}  // namespace vaecf::models
