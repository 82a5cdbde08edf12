#pragma once

#include "device/cpu/kernels/tile_kernels.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

namespace vaecf::testing {

/// The verbs of the output layer's kernel in plain loops, so that any machine tests the algorithm over them.
/// A thread that multiplies without having entered is a std::logic_error.
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

  /// Whether every thread left what it entered.
  bool all_left() const { return inside_ == 0; }
  mutable std::atomic<std::int64_t> exponential_tiles{0};

 private:
  mutable std::atomic<int> inside_{0};
};

/// A matrix unit as Intel's manual describes AMX: registers of 16 rows of 64 bytes, dot products of pairs.
/// One per thread.
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
