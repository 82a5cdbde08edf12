#include <vaecf/base/aligned_array.hpp>
#include <vaecf/base/log.hpp>
#include <vaecf/device/spd_inverse.hpp>

#include <algorithm>
#include <memory>
#include <vector>

#include "device/cpu/kernels/gemm.hpp"
#include "device/cpu/parallel.hpp"

namespace vaecf::device {

using cpu::GemmEngine, cpu::MatmulSpec, cpu::PackedOperand;
using cpu::parallel_for, cpu::parallel_for_dynamic, cpu::parallel_for_static;

namespace {

constexpr std::int64_t block = SpdInverse::block;
constexpr std::int64_t block_size = block * block;

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

bool SpdInverse::updates(std::int64_t j, std::int64_t l) const {
  const std::int64_t blocks = stride_ / block;
  const std::int64_t distance = (l - j + blocks) % blocks;
  return 2 * distance < blocks || (2 * distance == blocks && j < l);
}

std::array<Range, 2> SpdInverse::columns_read(std::int64_t i) const {
  const std::int64_t blocks = stride_ / block;
  const std::int64_t j = i / block;
  std::int64_t end = j;
  while (end < j + blocks && updates(j, end % blocks)) ++end;
  return {Range{j * block, std::min(n_, end * block)},
          Range{0, std::max<std::int64_t>(0, end - blocks) * block}};
}

void SpdInverse::gather_row(std::int64_t k, const Broadcast& broadcast, AlignedArray<float>& row) {
  const std::int64_t blocks = stride_ / block;
  parallel_for(threads_, blocks, [&](int, std::int64_t l) {
    float* to = &row[l * block_size];
    if (updates(k, l)) {
      if (!owns(k)) return;
      for (std::int64_t i = 0; i < block; ++i)
        std::copy_n(block_at(k, l) + i * stride_, block, to + i * block);
    } else if (owns(l)) {
      const float* from = block_at(l, k);
      for (std::int64_t i = 0; i < block; ++i)
        for (std::int64_t c = 0; c < block; ++c) to[c * block + i] = from[i * stride_ + c];
    }
  });
  if (ranks_ == 1) return;
  const auto source = [&](std::int64_t l) { return owner_of(updates(k, l) ? k : l); };
  for (std::int64_t l = 0, end = 0; l < blocks; l = end) {
    while (end < blocks && source(end) == source(l)) ++end;
    broadcast({&row[l * block_size], static_cast<std::size_t>((end - l) * block_size)}, source(l));
  }
}

Inversion SpdInverse::invert(const Broadcast& broadcast, const Progress& progress) {
  const std::int64_t blocks = stride_ / block;
  const std::int64_t updated = blocks / 2 + 1;  // blocks of a row, at most
  std::vector<std::unique_ptr<GemmEngine>> engines;
  for (int t = 0; t < threads_; ++t) engines.push_back(cpu::make_engine(cpu::choose_panels()));
  std::vector<PackedOperand> packed(static_cast<std::size_t>(blocks));
  AlignedArray<float> row(block * stride_);  // A_K: (blocks, block, block)
  AlignedArray<float> left(std::max<std::int64_t>(own_.size(), 1) *
                           block_size);   // -A_JK D of the own blocks J
  AlignedArray<float> pivot(block_size);  // -D in fp32
  Block factor(block_size), work(block_size), inverse(block_size);
  const MatmulSpec times_pivot{.m = block, .n = block, .k = block, .a_transposed = true};
  const MatmulSpec update{.m = block, .n = block, .k = block, .ldc = stride_, .accumulate = true};

  for (std::int64_t k = 0; k < blocks; ++k) {
    gather_row(k, broadcast, row);
    // D = A_KK^-1, in fp64 on every rank.
    std::copy_n(&row[k * block_size], block_size, factor.begin());
    if (!factorize(factor)) return Inversion::indefinite;
    parallel_for_static(threads_, block, 8,
                        [&](int, Range columns) { invert_columns(factor, columns, work, inverse); });
    for (std::int64_t i = 0; i < block_size; ++i) pivot[i] = static_cast<float>(-inverse[i]);

    // In rows K, A_KL becomes D A_KL and A_KK becomes -D. In rows J, with B = -A_JK D, A_JL += B A_KL and
    // A_JK becomes -B. So the matrix remains symmetric, and A_JK is the transpose of A_KJ.
    parallel_for_dynamic(threads_, own_.size(), 1, [&](int t, Range some) {
      const std::int64_t j = own_.begin + some.begin;
      float* factors = &left[some.begin * block_size];
      if (j == k) {
        for (std::int64_t i = 0; i < block_size; ++i) factors[i] = -pivot[i];
      } else {
        engines[t]->run(times_pivot, &row[j * block_size], pivot.data(), factors);
      }
    });
    parallel_for_dynamic(threads_, blocks, 1, [&](int t, Range some) {
      engines[t]->pack(update, &row[some.begin * block_size], packed[static_cast<std::size_t>(some.begin)]);
    });
    parallel_for_dynamic(threads_, own_.size() * updated, 1, [&](int t, Range some) {
      const std::int64_t j = own_.begin + some.begin / updated;
      const std::int64_t l = (j + some.begin % updated) % blocks;
      if (!updates(j, l)) return;
      const float* factors = &left[(j - own_.begin) * block_size];
      float* result = block_at(j, l);
      for (std::int64_t i = 0; i < block && (j == k || l == k); ++i)
        for (std::int64_t c = 0; c < block; ++c)
          result[i * stride_ + c] = l == k ? -factors[i * block + c] : 0.0F;
      if (l != k) engines[t]->run_packed(update, factors, packed[static_cast<std::size_t>(l)], result);
    });
    if (!progress(k + 1, blocks)) return Inversion::stopped;
  }
  // All blocks are swept, so the updated half of the matrix contains minus the inverse.
  for (std::int64_t k = 0; k < blocks; ++k) {
    gather_row(k, broadcast, row);
    if (!owns(k)) continue;
    parallel_for(threads_, blocks, [&](int, std::int64_t l) {
      if (updates(k, l)) return;
      for (std::int64_t i = 0; i < block; ++i)
        std::copy_n(&row[l * block_size + i * block], block, block_at(k, l) + i * stride_);
    });
  }
  parallel_for_static(threads_, rows_.size(), 64, [&](int, Range part) {
    for (std::int64_t i = part.begin; i < part.end; ++i) rows_[i] = -rows_[i];
  });
  return Inversion::done;
}

}  // namespace vaecf::device
