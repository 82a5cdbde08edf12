#pragma once

#include "panels.hpp"
#include "tile_kernels.hpp"

/// Files built for one instruction set offer nothing but these. They may use no inline function or template
/// of the standard library: the linker keeps one copy of such a function for the whole program, and it might
/// be the one that only this machine can run. tests/backend/machine_files_check looks for them.
namespace vaecf::cpu {

/// The caller owns what it gets, and has asked the CPU for the instructions.
const TileKernels* new_amx_tiles();
const TileKernels* new_avx512_tiles();
PanelKernel avx2_panel_kernel();

}  // namespace vaecf::cpu
