// Replaces machine_x86.cpp on other machines, which have the plain kernels only.
#include "device/cpu/kernels/panels.hpp"
#include "device/cpu/kernels/tiles.hpp"

namespace vaecf::cpu {

bool cpu_has_amx_bf16() {
  return false;
}

std::shared_ptr<const TileKernels> make_amx_tiles() {
  return nullptr;
}

std::shared_ptr<const TileKernels> make_avx512_tiles() {
  return nullptr;
}

std::shared_ptr<const TileKernels> choose_tiles() {
  return std::shared_ptr<const TileKernels>(create_plain_tiles());
}

PanelKernel make_avx2_panels() {
  return nullptr;
}

PanelKernel choose_panels() {
  return plain_panel_kernel();
}

}  // namespace vaecf::cpu
