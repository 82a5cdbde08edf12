#pragma once

#include <cstdint>

/// Products in fp32 for CPUs with AVX2: the right operand lies in panels of 16 columns, each (reduced, 16)
/// and contiguous, the last one (reduced, 8) where 8 columns are enough; zeros stand behind its own columns.
namespace vaecf::cpu {

constexpr std::int64_t panel_columns = 16;

/// How many columns the panel that begins at `first` of `columns` has in memory.
constexpr std::int64_t panel_width(std::int64_t columns, std::int64_t first) {
  return columns - first > panel_columns / 2 ? panel_columns : panel_columns / 2;
}

/// c = A B, or c += A B where `accumulate`. A (rows, reduced) and c (rows, columns) are row-major, with
/// `a_stride` and `c_stride` numbers between rows; the panels of B are 32-byte aligned. The bits of a number
/// depend on its row of A and its column of B alone, wherever those stand.
struct PanelProduct {
  const float* a = nullptr;
  const float* panels = nullptr;
  float* c = nullptr;
  std::int64_t rows = 0, columns = 0, reduced = 0;
  std::int64_t a_stride = 0, c_stride = 0;
  bool accumulate = false;
};

using PanelKernel = void (*)(const PanelProduct&);

/// Out of a file built for AVX2, see tile_kernels.hpp; the caller has asked the CPU.
PanelKernel avx2_panel_kernel();
/// Null where this CPU has no AVX2.
PanelKernel make_avx2_panels();
/// The kernel for this machine, where it is faster than the library: with AVX2 and no AVX-512. Else null.
PanelKernel choose_panels();

}  // namespace vaecf::cpu
