#include "device/cpu/kernels/tile_avx512_blocks.hpp"

namespace vaecf::cpu {
namespace {

// A matrix unit of AMX, see multiply_by_unit(). Inline assembly, because the intrinsics take literals only.
struct AmxUnit {
  static void prefetch(const char* line) { _mm_prefetch(line, _MM_HINT_T1); }

  template <int tile>
  static void zero() {
    __asm__ volatile("tilezero\t%%tmm%c0" ::"i"(tile));
  }
  template <int tile>
  static void load(const void* from, std::int64_t row_bytes) {
    __asm__ volatile("tileloadd\t(%0,%1,1), %%tmm%c2" ::"r"(from), "r"(row_bytes), "i"(tile) : "memory");
  }
  template <int tile>
  static void store(void* to, std::int64_t row_bytes) {
    __asm__ volatile("tilestored\t%%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(row_bytes), "i"(tile) : "memory");
  }
  template <int c, int a, int b>
  static void dot() {
    __asm__ volatile("tdpbf16ps\t%%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(c), "i"(a), "i"(b));
  }
};

// Eight registers of 16 rows of 64 bytes.
struct alignas(64) TileConfiguration {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfiguration) == 64);

/// Compiled on every x86-64 machine and tested with an emulated matrix unit, and with the real one if
/// available.
class AmxTiles : public TilesOfAvx512 {
 public:
  const char* name() const override { return "AMX"; }

  void enter() const override {
    // Static, because the compiler assumes that the instruction reads only a pointer and could drop the
    // stores.
    static constexpr TileConfiguration configuration;
    _tile_loadconfig(&configuration);
  }
  void leave() const override { _tile_release(); }

  void multiply(const TileProduct& product) const override { multiply_by_unit<AmxUnit>(product); }
};

}  // namespace

const TileKernels* create_amx_tiles() {
  return new AmxTiles;
}

}  // namespace vaecf::cpu
