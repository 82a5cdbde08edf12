#include "device/cuda/split_matmuls.hpp"

#include <utility>

#include "device/cuda/operations/vec8.hpp"
#include "device/cuda/platform/launch.hpp"
#include "device/cuda/platform/matmuls.hpp"
#include "device/cuda/scratch.hpp"

namespace vaecf::cuda {
namespace {

/// Writes blocks of high or low halves of a matrix, with zeros in the padding of each block.
struct SplitMatrix {
  const float* from;
  std::int64_t rows, columns, stride;
  bool vectors;  // rows can be loaded eight elements at a time
  Bf16* to;
  std::int64_t vecs_per_row;  // of a block
  std::int64_t to_stride;
  std::int64_t to_block;  // elements between blocks
  int blocks;
  unsigned low_blocks;  // bit i is set if block i holds low halves

  VAECF_HD void operator()(std::int64_t e) const {
    const std::int64_t row = e / vecs_per_row;
    const std::int64_t column = 8 * (e - row * vecs_per_row);
    const float* source = from + row * stride + column;
    const std::int64_t left = row < rows ? columns - column : 0;
    Vec8 x{};
    if (vectors && left >= 8) {
      x = load_vec8(source);
    } else {
      for (int j = 0; j < 8 && j < left; ++j) x.at[j] = source[j];
    }
    for (int i = 0; i < blocks; ++i) {
      const bool is_low = (low_blocks >> i & 1U) != 0;
      Vec8 half;
      for (int j = 0; j < 8; ++j) half.at[j] = is_low ? x.at[j] - round_to_bf16(x.at[j]) : x.at[j];
      store_vec8(to + i * to_block + row * to_stride + column, half);
    }
  }
};

/// A stored matrix whose halves are repeated in three blocks along the dimension k of the product.
struct Concatenated {
  Concatenated(const float* values, std::int64_t other, std::int64_t depth, std::int64_t row_stride,
               bool k_is_row)
      : from(values),
        rows(k_is_row ? depth : other),
        columns(k_is_row ? other : depth),
        stride(row_stride),
        padded_rows(k_is_row ? round_up(depth, 8) : other),
        padded_columns(round_up(columns, 8)),
        to_stride(k_is_row ? padded_columns : 3 * padded_columns),
        to_block(k_is_row ? padded_rows * padded_columns : padded_columns) {}
  std::int64_t size() const { return 3 * padded_rows * padded_columns; }
  void write(Stream& stream, Bf16* to, unsigned low_blocks) const {
    launch_elements(stream, padded_rows * padded_columns / 8,
                    SplitMatrix{from, rows, columns, stride, aligned(from) && stride % 4 == 0, to,
                                padded_columns / 8, to_stride, to_block, 3, low_blocks});
  }

  const float* from;
  std::int64_t rows, columns, stride;
  std::int64_t padded_rows, padded_columns;
  std::int64_t to_stride, to_block;
};

/// Writes the halves of `size` elements, the low ones `half` elements behind the high ones.
Operand write_halves(Stream& stream, const float* from, std::int64_t size, std::int64_t half, Bf16* to) {
  launch_elements(stream, half / 8,
                  SplitMatrix{from, 1, size, size, aligned(from), to, half / 8, half, half, 2, 0b10U});
  Operand operand(from);
  operand.high = to;
  operand.low = to + half;
  return operand;
}

}  // namespace

SplitMatmuls::SplitMatmuls(Gpu& gpu, Scratch& scratch, bool deterministic, device::Precision precision,
                           std::vector<Stream*> beside)
    : matmuls_(gpu, deterministic,
               precision == device::Precision::tf32 ? Fp32Products::tf32 : Fp32Products::exact,
               std::move(beside)),
      scratch_(scratch),
      splits_(precision == device::Precision::bf16x3) {}

void SplitMatmuls::run(Stream& stream, const MatmulSpec& spec, const Operand& a, const Operand& b, void* c,
                       const void* bias) {
  if (!splits_ || spec.operands != DType::fp32)
    return matmuls_.run(stream, spec, a.values, b.values, c, bias);
  if (a.high != nullptr || b.high != nullptr) return run_thrice(stream, spec, a, b, c, bias);
  run_concatenated(stream, spec, static_cast<const float*>(a.values), static_cast<const float*>(b.values), c,
                   bias);
}

Operand SplitMatmuls::split(Stream& stream, DType dtype, const void* values, std::int64_t size) {
  if (!splits_ || dtype != DType::fp32) return values;
  const std::int64_t half = round_up(size, tensor_alignment);
  auto* halves = scratch_.get<Bf16>(Scratch::halves, 2 * half, "the bf16 halves of logits");
  return write_halves(stream, static_cast<const float*>(values), size, half, halves);
}

// One product of three times the depth, high high + high low + low high: the result, which may be larger than
// the operands, is written only once.
void SplitMatmuls::run_concatenated(Stream& stream, MatmulSpec spec, const float* a, const float* b, void* c,
                                    const void* bias) {
  const Concatenated left(a, spec.m, spec.k, spec.lda, spec.a_transposed);
  const Concatenated right(b, spec.n, spec.k, spec.ldb, !spec.b_transposed);
  auto* halves =
      scratch_.get<Bf16>(Scratch::operand_halves, round_up(left.size(), tensor_alignment) + right.size(),
                         "the bf16 halves of operands");
  Bf16* right_halves = halves + round_up(left.size(), tensor_alignment);
  left.write(stream, halves, 0b100U);
  right.write(stream, right_halves, 0b010U);
  spec.k = 3 * round_up(spec.k, 8);
  spec.lda = left.to_stride;
  spec.ldb = right.to_stride;
  spec.operands = DType::bf16;
  matmuls_.run(stream, spec, halves, right_halves, c, bias);
}

// Three products of halves at the operands' own offsets, for an operand that was split for several products.
void SplitMatmuls::run_thrice(Stream& stream, MatmulSpec spec, Operand a, Operand b, void* c,
                              const void* bias) {
  const auto extent = [](bool transposed, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
    return transposed ? (columns - 1) * stride + rows : (rows - 1) * stride + columns;
  };
  const std::int64_t a_size = extent(spec.a_transposed, spec.m, spec.k, spec.lda);
  const std::int64_t b_size = extent(spec.b_transposed, spec.k, spec.n, spec.ldb);
  // The other operand is split here.
  const auto need = [](const Operand& x, std::int64_t size) {
    return x.high == nullptr ? round_up(size, tensor_alignment) : 0;
  };
  const std::int64_t a_half = need(a, a_size);
  const std::int64_t b_half = need(b, b_size);
  auto* halves =
      scratch_.get<Bf16>(Scratch::operand_halves, 2 * (a_half + b_half), "the bf16 halves of operands");
  if (a_half > 0) a = write_halves(stream, static_cast<const float*>(a.values), a_size, a_half, halves);
  if (b_half > 0)
    b = write_halves(stream, static_cast<const float*>(b.values), b_size, b_half, halves + 2 * a_half);
  spec.operands = DType::bf16;
  matmuls_.run(stream, spec, a.high, b.high, c, bias);
  spec.bias = false;
  spec.accumulate = true;
  matmuls_.run(stream, spec, a.high, b.low, c);
  matmuls_.run(stream, spec, a.low, b.high, c);
}

}  // namespace vaecf::cuda
