#include <vaecf/base/half_precision.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <set>
#include <stdexcept>
#include <vector>

#include "device/cpu/kernels/vector_kernels.hpp"
#include "device/cuda/operations/vec8.hpp"
#include "device/cuda/platform/primitives.hpp"
#include "device/cuda/platform/sparse_products.hpp"
#include "support/cuda_emulator/launch.hpp"
#include "support/cuda_emulator/runtime.hpp"

namespace vaecf::cuda {
namespace {

float load(DType dtype, const void* values, std::int64_t i) {
  if (dtype == DType::fp32) return static_cast<const float*>(values)[i];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(values)[i];
  return dtype == DType::bf16 ? from_bf16(bits) : from_fp16(bits);
}

void store(DType dtype, void* values, std::int64_t i, float value) {
  if (dtype == DType::fp32) {
    static_cast<float*>(values)[i] = value;
  } else {
    static_cast<std::uint16_t*>(values)[i] = dtype == DType::bf16 ? to_bf16(value) : to_fp16(value);
  }
}

constexpr std::int64_t tile_rows = 4;
constexpr std::int64_t tile_columns = 16;

float to_tf32(float value) {
  if (!std::isfinite(value)) return value;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) + 0x1000U) & ~0x1FFFU);
}

/// Packs an operand into fp32 tiles of `width` rows of op(a)' or columns of op(b), ordered by k and padded
/// with zeros.
std::vector<float> pack(DType dtype, const void* values, std::int64_t stride, bool k_is_row,
                        std::int64_t width, std::int64_t n, std::int64_t k, Fp32Products fp32) {
  std::vector<float> packed(static_cast<std::size_t>((n + width - 1) / width * width * k));
  for (std::int64_t i = 0; i < n; ++i) {
    float* tile = packed.data() + i / width * width * k + i % width;
    for (std::int64_t j = 0; j < k; ++j) {
      const float value = load(dtype, values, k_is_row ? j * stride + i : i * stride + j);
      tile[j * width] = fp32 == Fp32Products::tf32 && dtype == DType::fp32 ? to_tf32(value) : value;
    }
  }
  return packed;
}

struct Tile {
  float sums[tile_rows][tile_columns];
};

/// Compiled for the instruction set of the host and without sanitizers, because it would otherwise dominate
/// the duration of all tests. The operands are packed into whole tiles.
VAECF_CLONES [[gnu::noinline, gnu::no_sanitize("address", "undefined")]] Tile multiply_tile(
    const float* left, const float* right, std::int64_t depth) {
  // Explicit vectors, because compilers keep plain arrays of sums in memory.
  using Vec8 [[gnu::vector_size(8 * sizeof(float))]] = float;
  using Unaligned [[gnu::aligned(alignof(float)), gnu::may_alias]] = Vec8;
  constexpr std::int64_t eights = tile_columns / 8;
  Vec8 sums[tile_rows][eights] = {};
  for (std::int64_t k = 0; k < depth; ++k, left += tile_rows, right += tile_columns) {
    const Unaligned* const columns = reinterpret_cast<const Unaligned*>(right);
    for (std::int64_t y = 0; y < tile_rows; ++y) {
      for (std::int64_t x = 0; x < eights; ++x) sums[y][x] += left[y] * columns[x];
    }
  }
  Tile tile;
  std::memcpy(&tile, sums, sizeof tile);
  return tile;
}

void multiply(const MatmulSpec& s, const void* a, const void* b, void* c, const void* bias,
              Fp32Products fp32) {
  const auto rows = pack(s.operands, a, s.lda, s.a_transposed, tile_rows, s.m, s.k, fp32);
  const auto columns = pack(s.operands, b, s.ldb, !s.b_transposed, tile_columns, s.n, s.k, fp32);
  for (std::int64_t j = 0; j < s.n; j += tile_columns) {
    for (std::int64_t i = 0; i < s.m; i += tile_rows) {
      const Tile tile = multiply_tile(rows.data() + i * s.k, columns.data() + j * s.k, s.k);
      for (std::int64_t y = 0; y < std::min(tile_rows, s.m - i); ++y) {
        for (std::int64_t x = 0; x < std::min(tile_columns, s.n - j); ++x) {
          const std::int64_t at = (i + y) * s.ldc + j + x;
          float value = tile.sums[y][x];
          if (s.accumulate) value += load(s.result, c, at);
          if (s.bias) value += load(s.result, bias, j + x);
          store(s.result, c, at, value);
        }
      }
    }
  }
}

std::int64_t extent(std::int64_t rows, std::int64_t columns, std::int64_t stride, DType dtype) {
  if (columns > stride) throw std::logic_error("the rows of a matrix are longer than its stride");
  return rows == 0 ? 0 : ((rows - 1) * stride + columns) * size_of(dtype);
}

}  // namespace

struct Matmuls::State {
  Fp32Products fp32;
  std::set<MatmulSpec> plans = {};
};
Matmuls::Matmuls(Gpu&, bool, Fp32Products fp32, std::vector<Stream*>)
    : state_(std::make_unique<State>(State{fp32})) {}
Matmuls::~Matmuls() = default;

void Matmuls::run(Stream& stream, const MatmulSpec& s, const void* a, const void* b, void* c,
                  const void* bias) {
  if (s.m < 1 || s.n < 1 || s.k < 1) throw std::logic_error("a matrix product with an empty dimension");
  if (s.bias != (bias != nullptr) || (s.bias && s.accumulate)) {
    throw std::logic_error("the bias of a matrix product is missing or not allowed");
  }
  if (!aligned(bias)) throw std::logic_error("the bias of a matrix product is not aligned to 16 bytes");
  if (s.result != DType::fp32 && s.result != s.operands) {
    throw std::logic_error("the result of a matrix product must be fp32 or have the type of its operands");
  }
  const std::int64_t a_bytes =
      s.a_transposed ? extent(s.k, s.m, s.lda, s.operands) : extent(s.m, s.k, s.lda, s.operands);
  const std::int64_t b_bytes =
      s.b_transposed ? extent(s.n, s.k, s.ldb, s.operands) : extent(s.k, s.n, s.ldb, s.operands);
  emulator::require_device(a, a_bytes, "left operand of a matrix product");
  emulator::require_device(b, b_bytes, "right operand of a matrix product");
  emulator::require_device(c, extent(s.m, s.n, s.ldc, s.result), "result of a matrix product");
  if (s.bias) emulator::require_device(bias, s.n * size_of(s.result), "bias of a matrix product");
  MatmulSpec shape = s;
  shape.accumulate = false;
  state_->plans.insert(shape);
  const Fp32Products fp32 = state_->fp32;
  perform(stream, [=] { multiply(s, a, b, c, bias, fp32); });
}

std::vector<PlannedMatmul> Matmuls::plans() const {
  std::vector<PlannedMatmul> all;
  for (const MatmulSpec& spec : state_->plans) all.push_back({spec, {}, 0.0, 0.0});
  return all;
}

struct SparseProducts::State {};
SparseProducts::SparseProducts(Gpu&, bool) : state_(std::make_unique<State>()) {}
SparseProducts::~SparseProducts() = default;

void SparseProducts::run(Stream& stream, const SparseRows& a, const float* b, std::int64_t ldb,
                         std::int64_t n, float* c, std::int64_t ldc) {
  if (a.rows < 1 || a.columns < 1 || a.entries < 1 || n < 1)
    throw std::logic_error("a sparse matrix product with an empty dimension");
  if (stream.capturing()) throw std::logic_error("a sparse matrix product may allocate during a capture");
  emulator::require_device(a.offsets, (a.rows + 1) * 4, "offsets of a sparse matrix");
  emulator::require_device(a.indices, a.entries * 4, "columns of a sparse matrix");
  emulator::require_device(a.values, a.entries * 4, "values of a sparse matrix");
  emulator::require_device(b, extent(a.columns, n, ldb, DType::fp32), "right operand of a sparse product");
  emulator::require_device(c, extent(a.rows, n, ldc, DType::fp32), "result of a sparse product");
  perform(stream, [=] {
    if (a.offsets[0] != 0 || a.offsets[a.rows] != a.entries)
      throw std::logic_error("the offsets of a sparse matrix do not match its number of entries");
    for (std::int64_t row = 0; row < a.rows; ++row) {
      float* to = c + row * ldc;
      std::fill_n(to, n, 0.0F);
      for (std::int32_t k = a.offsets[row]; k < a.offsets[row + 1]; ++k)
        for (std::int64_t j = 0; j < n; ++j) to[j] += a.values[k] * b[a.indices[k] * ldb + j];
    }
  });
}

struct Primitives::State {
  /// Grows the temporary storage to `n` elements, which is not possible during a capture.
  void reserve(const Stream& stream, std::int64_t n) {
    if (n > reserved && stream.capturing())
      throw std::logic_error("a scan or sort would allocate temporary storage during a capture");
    reserved = std::max(reserved, n);
  }
  std::int64_t reserved = 0;
};
Primitives::Primitives(Gpu&) : state_(std::make_unique<State>()) {}
Primitives::~Primitives() = default;

void Primitives::exclusive_scan(Stream& stream, const std::int32_t* in, std::int64_t n, std::int64_t* out) {
  state_->reserve(stream, n);
  emulator::require_device(in, n * 4, "exclusive_scan");
  emulator::require_device(out, (n + 1) * 8, "exclusive_scan");
  perform(stream, [=] {
    out[0] = 0;
    std::inclusive_scan(in, in + n, out + 1, std::plus<>(), std::int64_t{0});
  });
}

void Primitives::sort_pairs(Stream& stream, const std::uint32_t* keys, std::uint32_t* sorted_keys,
                            const std::uint32_t* values, std::uint32_t* sorted_values, std::int64_t n,
                            int bits) {
  state_->reserve(stream, n);
  for (const void* memory : {static_cast<const void*>(keys), static_cast<const void*>(sorted_keys),
                             static_cast<const void*>(values), static_cast<const void*>(sorted_values)}) {
    emulator::require_device(memory, n * 4, "sort_pairs");
  }
  const std::uint32_t mask = ~0U >> (32 - bits);
  perform(stream, [=] {
    std::vector<std::int64_t> order(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t x, std::int64_t y) { return (keys[x] & mask) < (keys[y] & mask); });
    for (std::int64_t i = 0; i < n; ++i) {
      sorted_keys[i] = keys[order[i]];
      sorted_values[i] = values[order[i]];
    }
  });
}

}  // namespace vaecf::cuda
