#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "device/cpu/kernels/tiles.hpp"

namespace vaecf::testing {

/// Operations of the output layer's kernel as plain loops, so that the algorithm built on them can be tested
/// on any machine. Throws std::logic_error if a thread multiplies without having called enter().
class EmulatedTiles : public cpu::TileKernels {
 public:
  const char* name() const override { return "emulated"; }
  void enter() const override;
  void leave() const override;
  void multiply(const cpu::TileProduct& product) const override;
  void exponentials(const float* logits, const float* bias, const float* reference, std::uint16_t* e,
                    float* sum, float* largest) const override;
  void transpose(const std::uint16_t* from, std::uint16_t* to) const override;
  void pair(const std::uint16_t* from, std::uint16_t* to) const override;

  /// Returns whether every enter() was followed by leave().
  bool all_left() const { return inside_ == 0; }
  mutable std::atomic<std::int64_t> exponential_tiles{0};

 private:
  mutable std::atomic<int> inside_{0};
};

/// Emulates a matrix unit as specified for Intel AMX: registers of 16 rows of 64 bytes, dot products of
/// pairs. There is one unit per thread.
struct EmulatedMatrixUnit {
  using Register = std::array<std::array<std::uint8_t, 64>, 16>;
  static std::array<Register, 8>& registers();
  static void load_register(int tile, const void* from, std::int64_t row_bytes);
  static void store_register(int tile, void* to, std::int64_t row_bytes);
  static void dot_registers(int c, int a, int b);

  template <int tile>
  static void zero() {
    registers()[tile] = {};
  }
  template <int tile>
  static void load(const void* from, std::int64_t row_bytes) {
    load_register(tile, from, row_bytes);
  }
  template <int tile>
  static void store(void* to, std::int64_t row_bytes) {
    store_register(tile, to, row_bytes);
  }
  template <int c, int a, int b>
  static void dot() {
    dot_registers(c, a, b);
  }
  static void prefetch(const char* line) { prefetched().push_back(line); }
  static std::vector<const char*>& prefetched();
};

}  // namespace vaecf::testing
