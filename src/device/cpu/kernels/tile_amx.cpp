#include "device/cpu/kernels/tile_avx512_blocks.hpp"

namespace vaecf::cpu {
namespace {

// A matrix unit of AMX, see multiply_by_unit(). The tile register numbers of the intrinsics must be literals.
struct AmxUnit {
  static void prefetch(const char* line) { _mm_prefetch(line, _MM_HINT_T1); }

  template <int tile>
  static void zero() {
    if constexpr (tile == 0) _tile_zero(0);
    if constexpr (tile == 1) _tile_zero(1);
    if constexpr (tile == 2) _tile_zero(2);
    if constexpr (tile == 3) _tile_zero(3);
  }

  template <int tile>
  static void load(const void* from, std::int64_t row_bytes) {
    if constexpr (tile == 0) _tile_loadd(0, from, row_bytes);
    if constexpr (tile == 1) _tile_loadd(1, from, row_bytes);
    if constexpr (tile == 2) _tile_loadd(2, from, row_bytes);
    if constexpr (tile == 3) _tile_loadd(3, from, row_bytes);
    if constexpr (tile == 4) _tile_loadd(4, from, row_bytes);
    if constexpr (tile == 5) _tile_loadd(5, from, row_bytes);
    if constexpr (tile == 6) _tile_loadd(6, from, row_bytes);
    if constexpr (tile == 7) _tile_loadd(7, from, row_bytes);
  }

  template <int tile>
  static void store(void* to, std::int64_t row_bytes) {
    if constexpr (tile == 0) _tile_stored(0, to, row_bytes);
    if constexpr (tile == 1) _tile_stored(1, to, row_bytes);
    if constexpr (tile == 2) _tile_stored(2, to, row_bytes);
    if constexpr (tile == 3) _tile_stored(3, to, row_bytes);
  }

  template <int c, int a, int b>
  static void dot() {
    if constexpr (c == 0 && a == 4 && b == 6) _tile_dpbf16ps(0, 4, 6);
    if constexpr (c == 1 && a == 4 && b == 7) _tile_dpbf16ps(1, 4, 7);
    if constexpr (c == 2 && a == 5 && b == 6) _tile_dpbf16ps(2, 5, 6);
    if constexpr (c == 3 && a == 5 && b == 7) _tile_dpbf16ps(3, 5, 7);
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
