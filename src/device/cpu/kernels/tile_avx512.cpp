#include "device/cpu/kernels/tile_avx512_blocks.hpp"

namespace vaecf::cpu {
namespace {

class Avx512Tiles : public TilesOfAvx512 {
 public:
  const char* name() const override { return "AVX-512 BF16"; }
  void multiply(const TileProduct& product) const override { multiply_tile<Avx512>(product); }
};

}  // namespace

const TileKernels* create_avx512_tiles() {
  return new Avx512Tiles;
}

}  // namespace vaecf::cpu
