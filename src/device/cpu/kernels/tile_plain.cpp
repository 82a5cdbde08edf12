#include <vaecf/base/half_precision.hpp>

#include "device/cpu/kernels/plain_vectors.hpp"
#include "device/cpu/kernels/tile_blocks.hpp"

namespace vaecf::cpu {
namespace {

struct PlainTileVectors : PlainVectors {
  static void store_bf16(std::uint16_t* to, Register x, Register y) {
    float numbers[2 * lanes];
    store_any(numbers, x);
    store_any(numbers + lanes, y);
    for (int i = 0; i < 2 * lanes; ++i) to[i] = to_bf16(numbers[i]);
  }
};

class PlainTiles : public ExponentialsOfTiles<PlainTileVectors> {
 public:
  const char* name() const override { return "plain vectors"; }

  void multiply(const TileProduct& product) const override { multiply_tile<PlainTileVectors>(product); }

  void transpose(const std::uint16_t* from, std::uint16_t* to) const override {
    for (std::int64_t c = 0; c < tile_side; ++c) {
      for (std::int64_t r = 0; r < tile_side; ++r) to[c * tile_side + r] = from[r * tile_side + c];
    }
  }

  void pair(const std::uint16_t* from, std::uint16_t* to) const override {
    for (std::int64_t r = 0; r < tile_side; r += 2) {
      for (std::int64_t c = 0; c < tile_side; ++c) {
        to[16 * r + paired_column(c)] = from[r * tile_side + c];
        to[16 * r + paired_column(c) + 1] = from[(r + 1) * tile_side + c];
      }
    }
  }
};

}  // namespace

const TileKernels* create_plain_tiles() {
  return new PlainTiles;
}

}  // namespace vaecf::cpu
