#include <vaecf/device/cpu/spd_inverse.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "device/cpu/kernels/gemm.hpp"
#include "device/cpu/kernels/spd_pivot.hpp"
#include "device/cpu/parallel.hpp"

namespace vaecf::cpu {
namespace {

constexpr std::int64_t block = SpdInverse::block;
/// Columns per product: the packed operand and a block of results then fit in the second-level cache.
constexpr std::int64_t stripe = 1024;

}  // namespace

SpdInverse::SpdInverse(std::int64_t n, int rank, int ranks, int threads)
    : n_(n),
      rank_(rank),
      ranks_(ranks),
      threads_(threads),
      stride_((n + block - 1) / block * block),
      own_(blocks_of(rank)) {
  rows_.resize(own_.size() * block * stride_);
  // The padding is an identity matrix, whose inverse is itself.
  for (std::int64_t i = std::max(n, own_.begin * block); i < own_.end * block; ++i)
    rows_[(i - own_.begin * block) * stride_ + i] = 1.0F;
}

bool SpdInverse::invert(const Broadcast& broadcast, const Progress& progress) {
  const std::int64_t blocks = stride_ / block;
  const std::int64_t stripes = (stride_ + stripe - 1) / stripe;
  std::vector<std::unique_ptr<GemmEngine>> engines;
  for (int t = 0; t < threads_; ++t) engines.push_back(make_engine(choose_panels()));
  std::vector<PackedOperand> packed(static_cast<std::size_t>(stripes));
  FloatBuffer pivot_rows(block * stride_);                                   // rows K of the matrix
  FloatBuffer left(std::max<std::int64_t>(own_.size(), 1) * block * block);  // -A_JK D of the own blocks J
  FloatBuffer pivot(block * block);                                          // D in fp32
  Block factor(block * block), work(block * block), inverse(block * block);
  const auto product = [&](std::int64_t columns, std::int64_t ldb, std::int64_t lda, std::int64_t ldc) {
    return GemmSpec{.m = block, .n = columns, .k = block, .lda = lda, .ldb = ldb, .ldc = ldc};
  };

  for (std::int64_t k = 0; k < blocks; ++k) {
    const std::int64_t first = k * block;  // of the rows and columns of block K
    const bool own = k >= own_.begin && k < own_.end;
    if (own) {
      std::memcpy(pivot_rows.data(), &rows_[(k - own_.begin) * block * stride_],
                  static_cast<std::size_t>(block * stride_) * sizeof(float));
    }
    if (ranks_ > 1) broadcast({pivot_rows.data(), static_cast<std::size_t>(block * stride_)}, owner_of(k));

    // D = A_KK^-1, in fp64 on every rank.
    for (std::int64_t i = 0; i < block; ++i)
      for (std::int64_t j = 0; j < block; ++j) factor[i * block + j] = pivot_rows[i * stride_ + first + j];
    if (!factorize(factor)) return false;
    parallel_for_static(threads_, block, 8,
                        [&](int, Range columns) { invert_columns(factor, columns, work, inverse); });
    for (std::int64_t i = 0; i < block * block; ++i) pivot[i] = static_cast<float>(-inverse[i]);

    // Rows K become R = D A_K, except their columns K, which become -D. In rows J, A_J -= A_JK R and
    // A_JK = A_JK D: with B = -A_JK D, A_J += B A_K.
    parallel_for_dynamic(threads_, own_.size(), 1, [&](int t, Range some) {
      const std::int64_t j = some.begin;
      const GemmSpec spec = product(block, block, stride_, block);
      engines[t]->run(spec, &rows_[j * block * stride_ + first], pivot.data(), &left[j * block * block]);
    });
    parallel_for_dynamic(threads_, stripes, 1, [&](int t, Range some) {
      const std::int64_t s = some.begin, columns = std::min(stripe, stride_ - s * stripe);
      GemmSpec spec = product(columns, stride_, block, stride_);
      spec.accumulate = true;
      engines[t]->pack(spec, &pivot_rows[s * stripe], packed[s]);
    });
    parallel_for_dynamic(threads_, own_.size() * stripes, 1, [&](int t, Range some) {
      const std::int64_t j = some.begin / stripes, s = some.begin % stripes;
      const std::int64_t columns = std::min(stripe, stride_ - s * stripe);
      GemmSpec spec = product(columns, stride_, block, stride_);
      spec.accumulate = true;
      float* result = &rows_[j * block * stride_ + s * stripe];
      const float* factor_rows = &left[j * block * block];
      if (own && j == k - own_.begin) {
        for (std::int64_t i = 0; i < block; ++i) std::fill_n(result + i * stride_, columns, 0.0F);
        factor_rows = pivot.data();  // -D, so that rows K become -R; their sign changes below
      }
      engines[t]->run_packed(spec, factor_rows, packed[s], result);
    });
    parallel_for_dynamic(threads_, own_.size(), 1, [&](int, Range some) {
      const std::int64_t j = some.begin;
      const bool is_pivot = own && j == k - own_.begin;
      for (std::int64_t i = 0; i < block; ++i) {
        float* row = &rows_[(j * block + i) * stride_];
        if (is_pivot) {
          for (std::int64_t c = 0; c < stride_; ++c) row[c] = -row[c];
          std::copy_n(&pivot[i * block], block, row + first);
        } else {
          const float* from = &left[(j * block + i) * block];
          for (std::int64_t c = 0; c < block; ++c) row[first + c] = -from[c];
        }
      }
    });
    progress(k + 1, blocks);
  }
  // All blocks are swept: the rows contain minus the inverse.
  parallel_for_static(threads_, rows_.size(), 64, [&](int, Range part) {
    for (std::int64_t i = part.begin; i < part.end; ++i) rows_[i] = -rows_[i];
  });
  return true;
}

}  // namespace vaecf::cpu
