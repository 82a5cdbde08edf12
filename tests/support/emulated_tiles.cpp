#include "support/emulated_tiles.hpp"

#include <vaecf/base/half_precision.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace vaecf::testing {
namespace {

using cpu::tile_numbers;
using cpu::tile_side;

// Returns the index of (reduced, column) within a tile of a paired operand.
std::int64_t paired_index(std::int64_t reduced, std::int64_t column) {
  return column / 16 * 512 + reduced / 2 * 32 + column % 16 * 2 + reduced % 2;
}

// Returns the nesting depth of enter() in this thread.
int& depth() {
  thread_local int mine = 0;
  return mine;
}

}  // namespace

void EmulatedTiles::enter() const {
  ++depth();
  ++inside_;
}

void EmulatedTiles::leave() const {
  --depth();
  --inside_;
}

void EmulatedTiles::multiply(const cpu::TileProduct& x) const {
  if (depth() < 1) throw std::logic_error("multiply must be called between enter and leave");
  float b[tile_numbers];
  float sum[tile_numbers] = {};
  for (std::int64_t r = 0; r < x.rows && x.accumulate; ++r) {
    std::copy_n(x.c + r * x.stride, tile_side, sum + r * tile_side);
  }
  for (std::int64_t t = 0; t * tile_side < x.reduced; ++t) {
    for (std::int64_t k = 0; k < tile_side; ++k) {
      for (std::int64_t c = 0; c < tile_side; ++c) {
        b[k * tile_side + c] = from_bf16(x.b[t * tile_numbers + paired_index(k, c)]);
      }
    }
    for (std::int64_t r = 0; r < x.rows; ++r) {
      for (std::int64_t k = 0; k < std::min(tile_side, x.reduced - t * tile_side); ++k) {
        const float a = from_bf16(x.a[t * tile_numbers + r * tile_side + k]);
        for (std::int64_t c = 0; c < tile_side; ++c) sum[r * tile_side + c] += a * b[k * tile_side + c];
      }
    }
  }
  for (std::int64_t r = 0; r < x.rows; ++r) std::copy_n(sum + r * tile_side, tile_side, x.c + r * x.stride);
}

void EmulatedTiles::exponentials(const float* logits, const float* bias, const float* reference,
                                 std::uint16_t* e, float* sum, float* largest) const {
  ++exponential_tiles;
  for (std::int64_t r = 0; r < tile_side; ++r) {
    for (std::int64_t c = 0; c < tile_side; ++c) {
      const float l = logits[r * tile_side + c] + bias[r] - reference[c];
      const float value = std::isnan(l) ? l : std::exp(std::clamp(l, -87.3F, 88.3F));
      e[r * tile_side + c] = to_bf16(value);
      sum[c] += value;
      largest[c] = std::max(largest[c], l);
    }
  }
}

void EmulatedTiles::transpose(const std::uint16_t* from, std::uint16_t* to) const {
  for (std::int64_t r = 0; r < tile_side; ++r) {
    for (std::int64_t c = 0; c < tile_side; ++c) to[c * tile_side + r] = from[r * tile_side + c];
  }
}

void EmulatedTiles::pair(const std::uint16_t* from, std::uint16_t* to) const {
  for (std::int64_t r = 0; r < tile_side; ++r) {
    for (std::int64_t c = 0; c < tile_side; ++c) to[paired_index(r, c)] = from[r * tile_side + c];
  }
}

std::array<EmulatedMatrixUnit::Register, 8>& EmulatedMatrixUnit::registers() {
  thread_local std::array<Register, 8> mine;
  return mine;
}

std::vector<const char*>& EmulatedMatrixUnit::prefetched() {
  thread_local std::vector<const char*> mine;
  return mine;
}

void EmulatedMatrixUnit::load_register(int tile, const void* from, std::int64_t row_bytes) {
  for (std::size_t r = 0; r < 16; ++r) {
    const auto* row = static_cast<const std::uint8_t*>(from) + static_cast<std::int64_t>(r) * row_bytes;
    std::copy_n(row, 64, registers()[static_cast<std::size_t>(tile)][r].data());
  }
}

void EmulatedMatrixUnit::store_register(int tile, void* to, std::int64_t row_bytes) {
  for (std::size_t r = 0; r < 16; ++r) {
    auto* row = static_cast<std::uint8_t*>(to) + static_cast<std::int64_t>(r) * row_bytes;
    std::copy_n(registers()[static_cast<std::size_t>(tile)][r].data(), 64, row);
  }
}

// TDPBF16PS: C[m][n] += A[m][2k] B[k][2n] + A[m][2k+1] B[k][2n+1].
void EmulatedMatrixUnit::dot_registers(int c, int a, int b) {
  float sum[16][16];
  std::uint16_t left[16][32];
  std::uint16_t right[16][32];
  std::memcpy(sum, &registers()[static_cast<std::size_t>(c)], sizeof sum);
  std::memcpy(left, &registers()[static_cast<std::size_t>(a)], sizeof left);
  std::memcpy(right, &registers()[static_cast<std::size_t>(b)], sizeof right);
  for (int m = 0; m < 16; ++m) {
    for (int k = 0; k < 16; ++k) {
      for (int n = 0; n < 16; ++n) {
        sum[m][n] += from_bf16(left[m][2 * k]) * from_bf16(right[k][2 * n]);
        sum[m][n] += from_bf16(left[m][2 * k + 1]) * from_bf16(right[k][2 * n + 1]);
      }
    }
  }
  std::memcpy(&registers()[static_cast<std::size_t>(c)], sum, sizeof sum);
}

}  // namespace vaecf::testing
