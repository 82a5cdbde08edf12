#include <immintrin.h>

#include "device/cpu/kernels/panel_blocks.hpp"

namespace vaecf::cpu {
namespace {

struct Avx2 {
  using Register = __m256;
  static constexpr int lanes = 8;

  static Register load(const float* from) { return _mm256_load_ps(from); }
  static Register load_any(const float* from) { return _mm256_loadu_ps(from); }
  static void store_any(float* to, Register x) { _mm256_storeu_ps(to, x); }
  static Register all(const float& x) { return _mm256_broadcast_ss(&x); }
  // Inline assembly, because GCC 12 otherwise copies sums between registers and spills some of them, which
  // costs a fifth of the time.
  static void add_product(Register& sum, Register a, Register b) {
    __asm__("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
  }
};

}  // namespace

PanelKernel avx2_panel_kernel() {
  return multiply_panels<Avx2>;
}

}  // namespace vaecf::cpu
