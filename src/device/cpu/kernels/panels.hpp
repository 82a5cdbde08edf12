#pragma once

#include <cstdint>

namespace vaecf::cpu {

// Products in fp32 for CPUs with AVX2, and for those other than x86-64. The right operand is stored in panels
// of 16 columns, each (reduced, 16) and contiguous. The last panel is (reduced, 8) if 8 columns suffice.
// Unused columns are zero.

constexpr std::int64_t panel_columns = 16;

/// Returns the stored width of the panel that starts at column `first` of `columns`.
constexpr std::int64_t panel_width(std::int64_t columns, std::int64_t first) {
  return columns - first > panel_columns / 2 ? panel_columns : panel_columns / 2;
}

/// c = A B, or c += A B if `accumulate` is set. A (rows, reduced) and c (rows, columns) are row-major, with
/// `a_stride` and `c_stride` elements between rows; the panels of B are 32-byte aligned. The bits of an
/// element depend only on its row of A and its column of B, not on their positions.
struct PanelProduct {
  const float* a = nullptr;
  const float* panels = nullptr;
  float* c = nullptr;
  std::int64_t rows = 0, columns = 0, reduced = 0;
  std::int64_t a_stride = 0, c_stride = 0;
  bool accumulate = false;
};

using PanelKernel = void (*)(const PanelProduct&);

/// Returns the AVX2 kernel, or null if this CPU has no AVX2.
PanelKernel make_avx2_panels();
/// Returns the AVX2 kernel if it is faster than oneDNN on this CPU (no AVX-512), or if the program was built
/// without oneDNN; otherwise null. On machines other than x86-64, returns the plain kernel.
PanelKernel choose_panels();
/// Is in a file compiled for AVX2, so the caller must check that the CPU supports it; see create_amx_tiles().
PanelKernel avx2_panel_kernel();
/// Returns the kernel of the compiler's vectors, for any machine.
PanelKernel plain_panel_kernel();

}  // namespace vaecf::cpu
